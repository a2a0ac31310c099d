-- name: newest_template(name, user_id)
SELECT name, version, user_id, text, facts, created_at, removed_at FROM templates
WHERE name = :name AND user_id IS NOT DISTINCT FROM :user_id
ORDER BY version DESC LIMIT 1;

-- name: insert_template(name, version, user_id, text, facts, now)
INSERT INTO templates (name, version, user_id, text, facts, created_at)
VALUES (:name, :version, :user_id, :text, :facts, :now);

-- name: remove_template(name, user_id, version, now)
UPDATE templates SET removed_at = :now
WHERE name = :name AND user_id IS NOT DISTINCT FROM :user_id AND version = :version AND removed_at IS NULL;

-- name: list_templates(everyone, user_id, names)
-- The newest version of each template not removed.
SELECT name, version, user_id, text, facts, created_at, removed_at FROM templates AS template
WHERE (:everyone::boolean OR user_id IS NOT DISTINCT FROM :user_id) AND removed_at IS NULL
  AND (:names::text[] IS NULL OR name = ANY (:names::text[]))
  AND NOT EXISTS (
    SELECT 1 FROM templates AS later
    WHERE later.name = template.name AND later.user_id IS NOT DISTINCT FROM template.user_id
      AND later.version > template.version
  )
ORDER BY name COLLATE "C", user_id COLLATE "C" NULLS FIRST;

-- name: template_versions(name, everyone, user_id)
SELECT name, version, user_id, text, facts, created_at, removed_at FROM templates
WHERE name = :name AND (:everyone::boolean OR user_id IS NOT DISTINCT FROM :user_id)
ORDER BY user_id COLLATE "C" NULLS FIRST, version;

-- name: template_names(names)
-- The names that any owner ever registered.
SELECT DISTINCT name FROM templates WHERE name = ANY (:names::text[]);
