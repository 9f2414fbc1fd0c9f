-- renew: lengthens holds, never shortens them. A batch: one answer for each name, in their order.
--   KEYS  name ...
--   ARGV  owner, lease (ms) for each name
--   ->    for each: {yes facts remaining asked}
--                   {no found (absent | other | foreign)}
--                   {err text}: this name's own error, which does not fail its neighbours
-- `asked` is 0: room for a request to release.
local answers = {}
for i = 1, #KEYS do
  local name, owner, lease = KEYS[i], ARGV[2 * i - 1], ARGV[2 * i]
  local mine = redis.pcall('HMGET', name, owner, 'owner', 'f')
  if not mine.err and mine[1] and mine[2] == 'o' .. owner then
    -- First write: PEXPIRE, which a full server serves. 0: longer already, or no expiry at all.
    local done = redis.pcall('PEXPIRE', name, lease, 'GT')
    if done == 1 then
      answers[i] = {'yes', mine[3] or '', lease, 0}
    elseif done == 0 then
      local remaining = redis.call('PTTL', name)
      if remaining == -1 then
        redis.call('PEXPIRE', name, lease)
        remaining = lease
      end
      answers[i] = {'yes', mine[3] or '', remaining, 0}
    else
      answers[i] = {'err', done.err}
    end
  elseif mine.err and not string.find(mine.err, 'WRONGTYPE', 1, true) then
    answers[i] = {'err', mine.err}
  else
    -- A write without effect: only a server that takes writes may say no, which is final.
    local done = redis.pcall('PEXPIRE', name, 1, 'GT')
    if type(done) == 'table' then
      answers[i] = {'err', done.err}
    elseif mine.err then
      answers[i] = {'no', 'foreign'}
    elseif mine[2] and redis.call('HEXISTS', name, string.sub(mine[2], 2)) == 1 then
      answers[i] = {'no', 'other'}
    else
      answers[i] = {'no', redis.call('EXISTS', name) == 0 and 'absent' or 'foreign'}
    end
  end
end
return answers
