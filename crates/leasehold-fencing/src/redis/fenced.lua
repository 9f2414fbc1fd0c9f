-- Compares a token with the mark, and runs one command in the same script.
--   KEYS  mark, then the command's own keys, for the cluster's and the ACL's sake
--   ARGV  sequence, holder, resource (percent-encoded), 'claim' or 'hold', the mark's life in ms ('0':
--         for ever), then the words of the command, if there is one
-- The mark is the text of the token. Sequences are compared as numbers: at most 2^53-1, they are exact
-- in Lua; a larger one can only be a broken mark, and compares as larger whatever it is rounded to. No
-- number is ever made into text here.
-- Answers: {'ok', reply} · {'refused', sequence, holder} · {'forgotten'} · {'other'} · {'broken'}
local mark = redis.call('GET', KEYS[1])
local newer = true
if mark then
  local resource, sequence, holder = string.match(mark, '^([^@]*)@(%d+):(%x+)$')
  if not resource or #sequence > 19 or #holder ~= 32 then
    return {'broken'}
  end
  if resource ~= ARGV[3] then
    return {'other'}
  end
  local ours, theirs = tonumber(ARGV[1]), tonumber(sequence)
  if ours < theirs or (ours == theirs and holder ~= ARGV[2]) then
    return {'refused', sequence, holder}
  end
  newer = ours > theirs
end
if newer then
  if ARGV[4] == 'hold' then
    return {'forgotten'}
  end
  local text = ARGV[3] .. '@' .. ARGV[1] .. ':' .. ARGV[2]
  if ARGV[5] == '0' then
    redis.call('SET', KEYS[1], text)
  else
    redis.call('SET', KEYS[1], text, 'PX', ARGV[5])
  end
elseif ARGV[5] ~= '0' then
  redis.call('PEXPIRE', KEYS[1], ARGV[5])
end
if not ARGV[6] then
  return {'ok', false}
end
return {'ok', redis.call(unpack(ARGV, 6))}
