-- Shared by take and pass: what both must do alike with Q and W. Expects the keys name, fence,
-- queue, waiters, and now, client, fence_ttl.

local function number(n)
  return string.format('%.0f', n)
end

-- Lengthens a side key's life to `ms`, never shortens it. GT takes a missing expiry for endless, so
-- that case is asked for: no side key may outlive its lock's last user.
local function keep(key, ms)
  if redis.call('PEXPIRE', key, ms, 'GT') == 0 and redis.call('PTTL', key) == -1 then
    redis.call('PEXPIRE', key, ms)
  end
end

-- What to answer for a command that failed on `key`: a wrong type by its name, a denied command as
-- the server words it.
local function refused(key, want, reply)
  if string.find(reply.err, 'WRONGTYPE', 1, true) then
    return redis.error_reply('WRONGTYPE ' .. key .. ' is not a ' .. want)
  end
  return reply
end

-- What to answer for the holder whose facts were read: a kind ('ours', or the type of a foreign
-- record, '' for nobody), its owner, and its f and who facts. The holder is the owner fact *and*
-- that owner's field: a foreign hash may have a field of any name.
local function holder(fact, facts, who)
  if fact then
    local owner = string.sub(fact, 2)
    if redis.call('HEXISTS', name, owner) == 1 then
      return 'ours', owner, facts or '', who or ''
    end
  end
  local kind = redis.call('TYPE', name).ok
  return kind == 'none' and '' or kind, '', '', ''
end

-- The client that let its grant expire counts as overdue from now on. The caller is spared: it is
-- here.
local function blame(grant)
  if not grant then
    return
  end
  local blamed = string.match(grant, '^([^:]+):')
  if blamed and blamed ~= client then
    local sign = redis.call('HGET', waiters, 'c:' .. blamed)
    local promise, after = string.match(sign or '', '^(%d+)( .*)$')
    if promise and tonumber(promise) > now then
      redis.call('HSET', waiters, 'c:' .. blamed, number(now) .. after)
    end
  end
  redis.call('HDEL', waiters, 'g')
end

-- Tombstones past their end, and the signs of clients that wait for nothing any more.
local function sweep()
  -- By pcall: a release comes here too, and goes through whatever Q is.
  local queued = redis.pcall('ZCARD', queue)
  if type(queued) == 'table' or redis.call('HLEN', waiters) <= 2 * queued + 64 then
    return
  end
  local due = redis.call('HGET', waiters, 'z')
  if due and tonumber(due) > now then
    return
  end
  -- First of all z: should the rest empty W, z keeps it and its expiry.
  redis.call('HSET', waiters, 'z', number(now + 10000000))
  local all = redis.call('HGETALL', waiters)
  local waiting, old = {}, {}
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 2) == 'w:' then
      local whose = string.match(all[i + 1], '^%d+ %d+ %a %d+ (%S+)')
      if whose then
        waiting['c:' .. whose] = true
      end
    end
  end
  for i = 1, #all, 2 do
    local kind = string.sub(all[i], 1, 2)
    if (kind == 'v:' and (tonumber(all[i + 1]) or 0) <= now) or (kind == 'c:' and not waiting[all[i]]) then
      old[#old + 1] = all[i]
    end
  end
  for i = 1, #old, 1000 do
    redis.call('HDEL', waiters, unpack(old, i, math.min(i + 999, #old)))
  end
end
