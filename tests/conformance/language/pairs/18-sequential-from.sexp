(sequential
  (task :description "Data" :output-slot found :output "json" :schema "object")
  (task :description "{{x}} of {{steps[0].content}} after {{last_output}}" :inputs ((x found.errors))))
