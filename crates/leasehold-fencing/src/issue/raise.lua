-- KEYS fence; ARGV life in ms or '0', at least, largest step. Answers the counter, an integer.
-- A mark far ahead of every clock is a broken mark: following it would carry the fault into each later
-- token, up to the end of the numbers.
local fence, fence_ttl = KEYS[1], ARGV[1]
local least = tonumber(ARGV[2])
local time = redis.call('TIME')
local base = 0
if fence_ttl ~= '0' then
  base = tonumber(time[1]) * 1000000 + tonumber(time[2])
end
local text = redis.call('GET', fence)
local count = 0
if text then
  count = tonumber(text)
  if not count or #text > 16 or not string.match(text, '^%d+$') then
    return {err = 'COUNTER ' .. fence .. ' is not a counter'}
  end
end
if least - math.max(base, count) > tonumber(ARGV[3]) then
  return {err = 'ABSURD mark'}
end
if count < least then
  count = least
  if fence_ttl == '0' then
    redis.call('SET', fence, ARGV[2])
  else
    redis.call('SET', fence, ARGV[2], 'PX', fence_ttl)
  end
end
return count
