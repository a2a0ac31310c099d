(sequential :context (:inherit "none" :accumulate true :format "full_output")
  (task :description "One") (task :description "Two") (task :description "Three"))
