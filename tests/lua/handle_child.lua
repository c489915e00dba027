-- SPDX-License-Identifier: MIT
-- Run by handle_spec in a heap of its own, which the collector goes round hundreds of times:
-- tensors come and go in and out of order; their number, that of the handles and the values hold.
local ridge = require 'ridge'

local mode = arg[1]
jit[mode]()
collectgarbage('setpause', 1)
collectgarbage('setstepmul', 200)

local known, n = {}, 0
for i = 1, 60000 do
  local at = i * 7919 % 1009
  if known[at] then
    if known[at][1]:item() ~= known[at][2] then print 'another tensor is in the slot' end
    known[at], n = nil, n - 1
  else
    known[at], n = { ridge.tensor(i) + 1, i + 1 }, n + 1
  end
end
collectgarbage()
collectgarbage()
for _, pair in pairs(known) do
  if pair[1]:item() ~= pair[2] then print 'another tensor is in the slot' end
end
local now = ridge.memory.stats()
print(n, now.tensors, now.handles)
