(deftask get_file_info (filepath) :returns "object"
  :description "Get metadata for {{filepath}}" :output "json" :schema "object")
(sequential
  (task :ref "get_file_info" :inputs ((filepath "a.py")) :output-slot facts)
  (task :description "{{facts.feedback}}"))
