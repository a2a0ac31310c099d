(task :description "Say hello")
