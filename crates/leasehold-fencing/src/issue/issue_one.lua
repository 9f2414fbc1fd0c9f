-- KEYS fence; ARGV life in ms or '0'. Answers the token, an integer.
local fence, fence_ttl = KEYS[1], ARGV[1]
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
--@issue
return fault or token
