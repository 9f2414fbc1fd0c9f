-- Shared by look and pass: what identifies a foreign record, so that force ends exactly the one that
-- was shown. A string: the digest of its value; a hash: of its fields, sorted; else nothing, and its
-- type alone counts. Expects the key name.
local function fingerprint(kind)
  if kind == 'string' then
    return redis.sha1hex(redis.call('GET', name))
  elseif kind == 'hash' then
    local all = redis.call('HGETALL', name)
    local value, fields = {}, {}
    for i = 1, #all, 2 do
      fields[#fields + 1] = all[i]
      value[all[i]] = all[i + 1]
    end
    table.sort(fields)
    local parts = {}
    for i = 1, #fields do
      -- With lengths: no two different hashes may read alike.
      local field = fields[i]
      parts[i] = string.format('%.0f %.0f ', #field, #value[field]) .. field .. value[field]
    end
    return redis.sha1hex(table.concat(parts))
  end
  return ''
end
