(task :description "Go on" :history (:use true :turns 3 :record false)
  :tools ("system:read_files" "system:write") :timeout 30 :max-depth 3 :reuse false)
