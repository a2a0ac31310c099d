(deftask metrics (data method) :description "Measure {{data}} by {{method}}")
(task :description "Results: {{metrics(\"all\", method=\"advanced\")}}")
