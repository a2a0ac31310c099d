(deftask analyze_data (dataset config) :description "Analyze {{dataset}} using {{config}}")
(analyze_data "weather_data" :config "standard")
