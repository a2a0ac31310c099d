(director-evaluator-loop :description "Program"
  :director (task :description "Write")
  :script (script :argv ("python" "-") :timeout 10 :inputs ((code director_result)))
  :evaluator (task :description "Judge {{script_output}} and {{script_exit_code}}" :output "json")
  :condition "evaluation.errors == 2")
