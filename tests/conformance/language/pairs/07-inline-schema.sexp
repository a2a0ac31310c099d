(task :description "Judge" :output "json" :schema "{\"required\":[\"success\"]}")
