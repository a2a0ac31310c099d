(task :description "Read" :files (:description "about cats"))
