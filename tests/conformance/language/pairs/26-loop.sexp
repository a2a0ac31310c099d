(director-evaluator-loop :description "Improve it" :max-iterations 3
  :director (task :description "{{user_query}}: round {{current_iteration}}")
  :evaluator (task :description "Judge {{director_result}}" :output "json" :schema "object"))
