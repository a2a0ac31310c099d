(deftask user:generate-plan (goal) :description "Plan {{goal}}")
(template user:twice (goal) (sequential (user:generate-plan goal) (task :ref "user:generate-plan" :inputs ((goal "again")))))
(task :description "Plans: {{user:generate-plan(\"tea\")}}")
(user:twice :goal "cake")
