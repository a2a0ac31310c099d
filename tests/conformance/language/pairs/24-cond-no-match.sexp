(task-cond ("has(output.valid)" (task :description "Never")))
