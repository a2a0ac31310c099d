(deftask review (code) :description "Review {{code}}" :model "local:small")
(task :ref "review" :model "local:large" :inputs ((code "x")))
