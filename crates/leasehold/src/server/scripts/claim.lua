-- claim: turns a grant into a hold with its full lease. Never enqueues, never acquires.
--   KEYS  name waiters
--   ARGV  owner, lease (ms), kind (renewed | fixed: ends at grant + lease, however late), who
--   ->    yes us facts remaining
--         no  us found (absent | other | foreign)
-- Serves on a full server: PEXPIRE is allowed there, and behind it everything is.
local name, waiters = KEYS[1], KEYS[2]
local owner, lease = ARGV[1], ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local mine = redis.pcall('HMGET', name, owner, 'owner', 'f')
if mine.err and not string.find(mine.err, 'WRONGTYPE', 1, true) then
  return mine
end
if mine.err or not mine[1] or mine[2] ~= 'o' .. owner then
  -- A write, though without effect on any kind of key: a replica that lags must not answer no.
  redis.call('PEXPIRE', name, 1, 'GT')
  local found = 'foreign'
  if mine.err then
    return {'no', now, found}
  elseif mine[2] and redis.call('HEXISTS', name, string.sub(mine[2], 2)) == 1 then
    found = 'other'
  elseif redis.call('EXISTS', name) == 0 then
    found = 'absent'
  end
  return {'no', now, found}
end
local ttl = lease
if ARGV[3] == 'fixed' then
  local since = tonumber(string.match(mine[3] or '', ' s(%d+)')) or now
  -- Rounded up; never 0, which would delete the key.
  ttl = math.max(1, math.min(tonumber(lease), math.ceil((since - now) / 1000) + lease))
end
-- First write, and always: what is left is never shortened, a missing expiry is put back.
local remaining = ttl
if redis.call('PEXPIRE', name, ttl, 'GT') == 0 then
  remaining = redis.call('PTTL', name)
  if remaining == -1 then
    redis.call('PEXPIRE', name, ttl)
    remaining = ttl
  end
end
redis.call('HSET', name, 'who', ARGV[4])
-- Last, and by pcall: W is not this script's to judge. Whatever g names, it is not unclaimed now.
redis.pcall('HDEL', waiters, 'g')
return {'yes', now, mine[3] or '', remaining}
