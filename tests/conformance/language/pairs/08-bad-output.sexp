(task :description "List files" :output "json" :schema "number" :disable-reparsing true)
