(task :description "List files" :output "json" :schema "string[]")
