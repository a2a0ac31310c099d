-- name: newest_template
-- ?1 name, ?2 user_id
SELECT name, version, user_id, text, facts, created_at, removed_at FROM templates
WHERE name = ?1 AND user_id IS ?2
ORDER BY version DESC LIMIT 1;

-- name: insert_template
INSERT INTO templates (name, version, user_id, text, facts, created_at) VALUES (?, ?, ?, ?, ?, ?);

-- name: remove_template
-- ?1 name, ?2 user_id, ?3 version, ?4 now
UPDATE templates SET removed_at = ?4
WHERE name = ?1 AND user_id IS ?2 AND version = ?3 AND removed_at IS NULL;

-- name: list_templates
-- The newest version of each template not removed. ?1 everyone, ?2 user_id, ?3 names as a JSON list, or null: all
SELECT name, version, user_id, text, facts, created_at, removed_at FROM templates AS template
WHERE (?1 OR user_id IS ?2) AND removed_at IS NULL
  AND (?3 IS NULL OR name IN (SELECT value FROM json_each(?3)))
  AND NOT EXISTS (
    SELECT 1 FROM templates AS later
    WHERE later.name = template.name AND later.user_id IS template.user_id AND later.version > template.version
  )
ORDER BY name, user_id;

-- name: template_versions
-- ?1 everyone, ?2 user_id, ?3 name
SELECT name, version, user_id, text, facts, created_at, removed_at FROM templates
WHERE name = ?3 AND (?1 OR user_id IS ?2)
ORDER BY user_id, version;

-- name: template_names
-- The names that any owner ever registered. ?1 names as a JSON list
SELECT DISTINCT name FROM templates WHERE name IN (SELECT value FROM json_each(?1));

-- name: update_params
-- ?1 id, ?2 attempt, ?3 params, ?4 now
UPDATE tasks SET params = ?3, updated_at = ?4
WHERE id = ?1 AND status = 'in_progress' AND attempt = ?2 AND worker IS NOT NULL;
