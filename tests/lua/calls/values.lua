-- SPDX-License-Identifier: MIT
--- Arguments of every kind, drawn from a stream of random numbers, each with a text that says what
--- it is: numbers at their edges, tensors of every type, rank and kind of strides, released ones,
--- objects of every class of ridge's, what earlier calls returned, and plain nonsense.

local ffi = require 'ffi'
local ridge = require 'ridge'

local M = {}

local Draw = {}
Draw.__index = Draw

--- A stream of draws, with an empty pool of values.
---@param seed number
---@return table
function M.new(seed)
  return setmetatable({ state = seed % 2147483647 + 1, pool = {} }, Draw)
end

--- A whole number from 1 to n.
function Draw:pick(n)
  self.state = self.state * 48271 % 2147483647 -- exact in a double
  return math.floor(self.state / 2147483647 * n) + 1
end

function Draw:one(list) return list[self:pick(#list)] end

--- True in so many of 100 cases.
function Draw:often(percent) return self:pick(100) <= percent end

-- -- Numbers and texts ------------------------------------------------------------------------

local NUMBERS = { 0, 1, 2, 3, 4, 5, 7, 8, 16, 100, -1, -2, -3, 0.5, 1.5, -0.25, 1e-3, 1e300, -1e300,
  2 ^ 31 - 1, 2 ^ 31, -2 ^ 31, 2 ^ 32, 2 ^ 53, -2 ^ 53, 2 ^ 62, 2 ^ 63, -2 ^ 63, 2 ^ 64, 1 / 0,
  -1 / 0, 0 / 0, -0.0, 5e-324, 65504, 255, 256 }
local SMALL = { 0, 1, 1, 2, 2, 3, 4, -1, -2 }
local TEXTS = { '', 'a', 'x', 'zz', 'f32', 'bf16', 'f8e4m3', 'i64', 'cpu', 'cuda:0', 'auto', 'gelu',
  'relu', 'sum', 'none', 'quick', 'bf16 ', '1', '-1', '0/0', 'width', 'fwd', 'width <= 3', '%d %s',
  'a.b', 'a,b', "it's", '"', 'x\0y', '\27[31m', 'ü', '\255\254', ('y'):rep(3000), 'none/x', '.',
  'x.db', 'x.png', 'x.safetensors', 'x.npy', 'x.csv', 'linear{4,4}', 'adam', 'mlp', '1..4', 'A' }

function Draw:number()
  if self:often(50) then
    local n = self:one(SMALL)
    return n, tostring(n)
  end
  local n = self:one(NUMBERS)
  return n, ('%.17g'):format(n)
end

function Draw:text()
  local s = self:one(TEXTS)
  return s, ('%q'):format(#s > 40 and s:sub(1, 9) .. '..' or s):gsub('%c', '?')
end

-- -- Tensors ----------------------------------------------------------------------------------

local TYPES = { 'f32', 'f32', 'f32', 'f32', 'f64', 'f16', 'bf16', 'i64', 'i32', 'i8', 'u8', 'bool',
  'f8e4m3', 'f8e5m2' }
local SIZES = { 1, 1, 2, 2, 3, 3, 4, 5, 8, 0 }
local SPECIAL = { 0, 1, -1, 0.5, 1e30, 0 / 0, 1 / 0, -1 / 0, 3 }

-- Other strides over the same elements, or fewer, or more.
local function turned(draw, x, text)
  local rank = x.ndim
  local way = draw:pick(9)
  if way == 1 and rank >= 2 then
    return x:transpose(draw:pick(rank), draw:pick(rank)), text .. ':T'
  end
  if way == 2 and rank >= 1 and x:size(1) >= 2 then
    return x:narrow(1, 1, math.ceil(x:size(1) / 2), 2), text .. ':by 2'
  end
  if way == 3 and rank >= 1 and rank < 8 then
    local sizes = x:size()
    table.insert(sizes, 1, 3)
    return x:expand(sizes), text .. ':expand'
  end
  if way == 4 and rank >= 1 and x:size(rank) > 1 then
    return x:narrow(rank, 2, x:size(rank) - 1), text .. ':rest'
  end
  if way == 5 and x.dtype:find '^b?f%d+$' then return x:requires_grad_(), text .. ':grad' end
  if way == 6 and draw:often(15) then
    return ridge.full(2, 1):expand(2 ^ draw:one { 20, 31, 50 }), 'expanded to 2^20..50'
  end
  if way == 7 and draw:often(30) then
    x:release()
    return x, text .. ':released'
  end
  return x, text
end

function Draw:tensor()
  local rank = self:one { 0, 1, 1, 2, 2, 2, 3, 4, 4, 5, 6, 7, 8 }
  local sizes, dtype = {}, self:one(TYPES)
  for i = 1, rank do sizes[i] = self:one(SIZES) end
  local text = ('%s[%s]'):format(dtype, table.concat(sizes, ','))
  local x
  if self:often(70) then
    x = ridge.rand(sizes, { generator = ridge.generator(self:pick(1000)) })
    if not dtype:find '^b?f%d+$' then x = x * 4 - (dtype == 'u8' and 0 or 1) end
    x = x:to(dtype)
  else
    local value = self:one(SPECIAL)
    x = ridge.full(value, sizes, { dtype = dtype })
    text = text .. ' of ' .. value
  end
  return turned(self, x, text)
end

-- -- Functions --------------------------------------------------------------------------------

local function broken() error('mine', 0) end

local FUNCTIONS = {
  { 'returns its argument', function(...) return ... end },
  { 'x * 2', function(x) return x * 2 end },
  { 'returns ones(2)', function() return ridge.ones(2) + 1 end },
  { 'returns nothing', function() end },
  { 'raises its own', broken },
  { 'raises a table', function() error({}) end },
  { 'returns 1', function() return 1 end },
  { 'returns a table', function() return { x = ridge.ones(2), ridge.ones(3) } end },
  { 'asks for too much', function() return ridge.ones(2 ^ 40) end },
  { 'returns many', function() return 1, nil, 'x', ridge.ones(1), nil end },
  { 'print', print },
}

--- Is this error one that a function of ours raised?
function M.is_mine(e)
  if type(e) == 'string' and e:find 'calls/values.lua:%d+: ' then return true end
  return e == 'mine' or (type(e) == 'table' and next(e) == nil and getmetatable(e) == nil)
end

function Draw:func()
  local entry = self:one(FUNCTIONS)
  return entry[2], 'function ' .. entry[1]
end

-- -- Objects ----------------------------------------------------------------------------------

local nn = function(draw)
  local list = {
    function() return ridge.nn.Linear(3, 2, { seed = 1 }) end,
    function() return ridge.nn.Linear(4, 4, { seed = 1, activation = 'gelu' }) end,
    function() return ridge.nn.SKLinear(4, 4, { num_terms = 1, low_rank = 2, seed = 1 }) end,
    function() return ridge.nn.LowRankLinear(4, 4, { rank = 2, seed = 1 }) end,
    function() return ridge.nn.Conv2d(2, 2, 1, { seed = 1 }) end,
    function() return ridge.nn.SKConv2d(2, 2, 1) end,
    function() return ridge.nn.LayerNorm(4) end, function() return ridge.nn.BatchNorm(4) end,
    function() return ridge.nn.GroupNorm(2, 4) end, function() return ridge.nn.RMSNorm(4) end,
    function() return ridge.nn.Embedding(5, 4, { seed = 1 }) end,
    function() return ridge.nn.LSTM(4, 4) end, function() return ridge.nn.GRU(4, 4) end,
    function() return ridge.nn.MultiHeadAttention(4, { heads = 2 }) end,
    function() return ridge.nn.TransformerBlock(4, { heads = 2 }) end,
    function() return ridge.nn.Dropout(0.5) end, function() return ridge.nn.ReLU() end,
    function() return ridge.nn.Flatten() end, function() return ridge.nn.MaxPool2d(1) end,
    function()
      return ridge.nn.Sequential(ridge.nn.Linear(3, 4), ridge.nn.ReLU(), ridge.nn.Linear(4, 2))
    end,
    function() return ridge.nn.Residual(ridge.nn.Linear(4, 4)) end,
    function() return ridge.nn.CrossEntropyLoss() end, function() return ridge.nn.Module() end,
    function()
      local Scale = ridge.nn.class 'Scale'
      function Scale:init() self:param('weight', ridge.ones(3)) end
      function Scale:forward(x) return x * self.weight end
      return Scale()
    end,
  }
  return draw:one(list)()
end

local function net() return ridge.nn.Linear(3, 2, { seed = 1 }):train() end
local function loader()
  return ridge.data.Loader({ ridge.ones(6, 3), ridge.zeros(6, { dtype = 'i64' }) }, { batch = 2 })
end
local function quiet() end

local OBJECTS = {
  module = nn, generator = function(draw) return ridge.generator(draw:pick(9)) end,
  optimizer = function(draw)
    local model = net()
    return draw:one { function() return ridge.optim.SGD(model, { momentum = 0.9 }) end,
      function() return ridge.optim.Adam(model) end, function() return ridge.optim.Lion(model) end,
      function() return ridge.optim.AdamW(model, { amsgrad = true }) end }()
  end,
  schedule = function(draw)
    local o = ridge.optim.SGD(net())
    return draw:one { function() return ridge.optim.CosineLR(o, { steps = 5 }) end,
      function() return ridge.optim.StepLR(o, { every = 2 }) end,
      function() return ridge.optim.OneCycleLR(o, { steps = 5 }) end,
      function() return ridge.optim.PlateauLR(o) end }()
  end,
  clip = function(draw)
    return ridge.optim.Clip { kind = draw:one { 'norm', 'value',
      'adaptive' } }
  end,
  guard = function() return ridge.optim.Guard {} end,
  scaler = function() return ridge.optim.GradScaler() end,
  loader = loader,
  rows = function()
    local file = assert(io.open('rows.bin', 'wb'))
    file:write(('\1\2\3\4'):rep(8))
    file:close()
    return ridge.data.rows('rows.bin', { shape = { 4 }, dtype = 'u8' })
  end,
  plan = function() return ridge.capture(function() return ridge.ones(2) + 1 end) end,
  trainer = function()
    local model = net()
    return ridge.Trainer(model, { optimizer = ridge.optim.SGD(model), say = quiet })
  end,
  stability = function() return ridge.Stability(ridge.optim.SGD(net())) end,
  event = function() return ridge.device.event() end,
  profile = function() return ridge.profile(function() return ridge.ones(2) + 1 end) end,
  timeline = function() return ridge.timeline(function() return ridge.ones(2) + 1 end) end,
  memory_timeline = function()
    return (ridge.memory.timeline(function() return ridge.ones(2) + 1 end))
  end,
  monitor = function() return ridge.monitor() end,
  timer = function() return ridge.timer() end,
  events = function() return ridge.tensorboard 'calls.runs' end,
  memory_mark = function() return ridge.memory.mark() end,
  store = function() return ridge.store.open('calls.db', 'write') end,
  sweep = function()
    return ridge.sweep 'calls' { space = { width = { 1, 2 } },
      setup = function() return {} end, measure = function() end }
  end,
  space = function(draw)
    return draw:one { function() return ridge.range(1, 5) end,
      function() return ridge.geom(1, 16) end, function() return ridge.any { 1, 2 } end,
      function() return ridge.between(1, 3, 3) end }()
  end,
  protocol = function() return ridge.measure.protocol 'quick' end,
  calls_own = function() return ridge.Function end,
}
M.kinds = {}
for kind in pairs(OBJECTS) do M.kinds[#M.kinds + 1] = kind end
table.sort(M.kinds)

--- An object of a kind, new or one that a call returned.
function Draw:object(kind)
  if not kind and #self.pool > 0 and self:often(30) then
    local entry = self:one(self.pool)
    return entry[1], entry[2]
  end
  kind = kind or self:one(M.kinds)
  local ok, value = pcall(OBJECTS[kind], self)
  if not ok then error(('no %s can be made: %s'):format(kind, tostring(value)), 0) end
  return value, 'a ' .. kind
end

--- Remember what a call returned.
function Draw:keep(value, text)
  if #self.pool < 20 then self.pool[#self.pool + 1] = { value, text } end
end

-- -- Tables and nonsense ----------------------------------------------------------------------

function Draw:list()
  local list, texts = {}, {}
  for i = 1, self:one { 0, 1, 1, 2, 2, 3, 4, 9 } do
    list[i], texts[i] = self:any(1)
  end
  return list, '{' .. table.concat(texts, ', ') .. '}'
end

--- A list of numbers, sizes or positions perhaps.
function Draw:numbers()
  local list, texts = {}, {}
  for i = 1, self:one { 0, 1, 2, 2, 3, 4, 9 } do
    list[i], texts[i] = self:number()
  end
  return list, '{' .. table.concat(texts, ', ') .. '}'
end

local NONSENSE = {
  { 'nil', nil }, { 'true', true }, { 'false', false }, { 'coroutine', coroutine.create(print) },
  { 'io.stderr', io.stderr }, { '5LL', 5LL }, { '2^63 ULL', 2ULL ^ 63 },
  { 'NULL', ffi.new 'void *' },
  { '{foo = 1}', { foo = 1 } }, { 'cdata', ffi.new 'int[3]' },
  { 'a table that says no', setmetatable({}, { __index = function() error('mine', 0) end }) },
}

--- Anything at all.
function Draw:any(depth)
  local way = self:pick(20)
  if way <= 5 then return self:number() end
  if way <= 8 then return self:text() end
  if way <= 13 then return self:tensor() end
  if way <= 14 then return self:func() end
  if way <= 16 then return self:object() end
  if way <= 18 and depth ~= 1 then
    if self:often(50) then return self:numbers() end
    return self:list()
  end
  local entry = self:one(NONSENSE)
  return entry[2], entry[1]
end

return M
