(task :description "Look at {{a}}" :context (:inherit "subset") :inputs ((a "one") (b "two"))
  :relevance ((a true) (b false)) :assembly (:primary "code"))
