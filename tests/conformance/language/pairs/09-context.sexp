(task :description "Look" :context (:inherit "none" :accumulate true :format "full_output" :fresh "enabled"))
