(sequential
  (task :description "Check" :output "json" :schema "object")
  (task-cond
    ("output.errors > 9" (task :description "Many"))
    ("output.valid == true" (task :subtype "success_handler" :description "Handle success"))))
