-- SPDX-License-Identifier: MIT
--- Rows a second that a loader hands out, over its number of threads: rows of a file converted to
--- f32, with and without a transform in Lua, and with a consumer that takes its time as well.
--
--     ./ridge --threads 1 scripts/loader_rate.lua [--rows 20000] [--most 4]

local ffi = require 'ffi'
local ridge = require 'ridge'

local opt = ridge.args {
  { 'rows', 20000, 'images of 28 x 28 bytes in the file', integer = true, min = 100 },
  { 'most', 4, 'threads, doubled from 1', integer = true, min = 1 },
  { 'rounds', 3, 'epochs of each; the median is shown', integer = true, min = 1 },
}

local path = os.tmpname()
local bytes = (ridge.rand(opt.rows, 784) * 255):to 'u8'
local file = assert(io.open(path, 'wb'))
file:write(ffi.string(bytes._t._data, opt.rows * 784))
file:close()
local images = ridge.data.rows(path, { shape = { 784 }, dtype = 'u8', to = 'f32',
  scale = 1 / 255 })

local function transform(_, row) -- noise and a shift, as images are made more
  local shift = 1
  for i = 783, shift, -1 do row[i] = row[i - shift] * 0.9 + math.random() * 0.1 end
end

local net = ridge.nn.Linear(784, 256, { seed = 1 })
local CONSUMERS = {
  nothing = function() end,
  ['a linear layer'] = function(x) for _ = 1, 4 do ridge.inference(net, x) end end,
}

local function rate(workers, f, consume)
  local loader = ridge.data.Loader(images, { batch = 100, seed = 1, workers = workers,
    transform = f })
  local list = {}
  for round = 1, opt.rounds do
    local began = ridge.clock()
    for x in loader:each() do ridge.scope(consume, x) end
    list[round] = opt.rows / (ridge.clock() - began)
  end
  table.sort(list)
  return list[math.ceil(#list / 2)]
end

print(('%d rows of 784 bytes, batches of 100; thousands of rows a second'):format(opt.rows))
print 'threads   copied   with a transform   with a transform, and the consumer computes'
local workers = 0
while workers <= opt.most do
  print(('%7d  %7.0f  %17.0f  %43.0f'):format(workers,
    rate(workers, nil, CONSUMERS.nothing) / 1e3, rate(workers, transform, CONSUMERS.nothing) / 1e3,
    rate(workers, transform, CONSUMERS['a linear layer']) / 1e3))
  workers = math.max(1, workers * 2)
end
os.remove(path)
