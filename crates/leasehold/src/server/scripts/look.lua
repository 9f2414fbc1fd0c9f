#!lua flags=no-writes
-- look: who holds and who waits. Changes nothing, and is served where nothing else is.
--   KEYS  name queue
--   ->    us remaining waiters kind owner facts who       (kind ours)
--         us remaining waiters kind shown fingerprint ''  (kind '': nobody; else a foreign type)
local name, queue = KEYS[1], KEYS[2]
--@splice fingerprint
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local remaining = redis.call('PTTL', name)
local waiters = redis.pcall('ZCARD', queue)
if type(waiters) == 'table' then
  if not string.find(waiters.err, 'WRONGTYPE', 1, true) then
    return waiters
  end
  waiters = 0
end
local facts = redis.pcall('HMGET', name, 'owner', 'f', 'who')
if facts.err and not string.find(facts.err, 'WRONGTYPE', 1, true) then
  return facts
end
if not facts.err and facts[1] then
  local owner = string.sub(facts[1], 2)
  if redis.call('HEXISTS', name, owner) == 1 then
    return {now, remaining, waiters, 'ours', owner, facts[2] or '', facts[3] or ''}
  end
end
local kind = redis.call('TYPE', name).ok
if kind == 'none' then
  return {now, remaining, waiters, '', '', '', ''}
end
-- Enough for a person to know whose it is.
local shown = ''
if kind == 'string' then
  shown = string.sub(redis.call('GET', name), 1, 64)
elseif kind == 'hash' and redis.call('HLEN', name) <= 16 then
  local all = redis.call('HGETALL', name)
  for i = 1, #all, 2 do
    shown = shown .. (i > 1 and ' ' or '') .. string.sub(all[i], 1, 64) .. '=' .. string.sub(all[i + 1], 1, 64)
  end
  shown = string.sub(shown, 1, 256)
end
return {now, remaining, waiters, kind, shown, fingerprint(kind), ''}
