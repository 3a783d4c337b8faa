-- Appends the entries of a run to one stream, in order, and stops at the first that fails. Redis runs nothing else meanwhile.
-- KEYS: the stream, then the mark of each event, if duplicates are checked for.
-- ARGV: the window of that check in milliseconds (0 for no check), the number of XADD's options, the options, and for each
-- entry the number of its names and values, and these.
-- Returns the number of entries that are stored, and the error of the next one.
local window = tonumber(ARGV[1])
local options = tonumber(ARGV[2])
local command = { 'XADD', KEYS[1] }
for i = 1, options do
  command[2 + i] = ARGV[2 + i]
end
local base = 2 + options
local at = 3 + options
local stored = 0
while at <= #ARGV do
  local mark = KEYS[2 + stored]
  local width = tonumber(ARGV[at])
  local known = window > 0 and redis.call('EXISTS', mark) == 1
  if not known then
    for i = 1, width do
      command[base + i] = ARGV[at + i]
    end
    local reply = redis.pcall(unpack(command, 1, base + width))
    if not reply then
      return { stored, 'NOSTREAM' }
    end
    if type(reply) == 'table' and reply.err then
      return { stored, reply.err }
    end
  end
  if window > 0 then
    -- Written again for an event that is known, so that WAIT covers the entry that was stored before.
    redis.call('SET', mark, '', 'PX', window)
  end
  stored = stored + 1
  at = at + 1 + width
end
return { stored }
