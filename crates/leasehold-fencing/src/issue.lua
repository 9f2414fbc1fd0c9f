-- Issues one token: INCR of the counter, raised to the server's clock where that is ahead, so that
-- a lost counter still gives a larger token. Spliced into scripts as it stands.
--   reads   fence (the counter's key), now (TIME in microseconds, a number), fence_ttl (ms, text;
--           '0': plain numbering 1, 2, 3 without an expiry)
--   leaves  token (a number), or token = nil and fault: the error to answer. It begins with COUNTER
--           and the key where the counter itself is broken; else it is the server's own.
-- INCR comes first: it is what a full or read-only server refuses, and nothing has happened then.
-- The counter may expire: every later token is above it by the clock. Above 2^53 - 2 a Lua number
-- is not exact any more, so such a counter is broken, whoever wrote it.
local fault
local token = redis.pcall('INCR', fence)
if type(token) == 'table' then
  token, fault = nil, token
  if string.find(fault.err, '^%-?WRONGTYPE ') or string.find(fault.err, '^%-?ERR value ')
    or string.find(fault.err, '^%-?ERR increment ') then
    fault = {err = 'COUNTER ' .. fence .. ' cannot be counted up: ' .. fault.err}
  end
elseif token > 9007199254740990 or token < 1 then
  token, fault = nil, {err = 'COUNTER ' .. fence .. ' is out of range'}
elseif fence_ttl ~= '0' then
  if token < now then
    token = now
    redis.call('SET', fence, string.format('%.0f', token), 'PX', fence_ttl)
  else
    redis.call('PEXPIRE', fence, fence_ttl)
  end
end
