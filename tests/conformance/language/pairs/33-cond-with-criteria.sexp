(deftask judge (director_result) :subtype "evaluator" :description "Judge style: {{director_result}}"
  :output "json" :schema "object")
(sequential
  (task :description "Write")
  (task-cond :criteria "good style"
    ("evaluation.success" (task :description "Publish"))
    ("true" (task :description "Repair: {{evaluation.feedback}}"))))
