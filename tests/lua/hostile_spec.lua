-- SPDX-License-Identifier: MIT
--- Whatever is typed gets an answer or an error with a sentence; the process lives on.  Calls are
-- made in a fixed pseudo-random order, so that a crash can be found again; RIDGE_SEED=n is another
-- order.

local ridge = require 'ridge'
local blame = require 'ridge.blame'
local types = require 'ridge.types'

local state = tonumber(os.getenv 'RIDGE_SEED') or 12345
local function pick(n)
  state = (state * 1103515245 + 12345) % 2147483648
  return math.floor(state / 65536) % n + 1
end

local function values()
  local released = ridge.ones(2)
  released:release()
  local dropped
  ridge.scope(function() dropped = ridge.ones(3) + 1 end)
  return {
    function() return nil end, function() return 0 end, function() return 1 end,
    function() return -1 end, function() return 3 end, function() return 1.5 end,
    function() return 0 / 0 end, function() return math.huge end, function() return -2 ^ 53 end,
    function() return 2 ^ 62 end, function() return '' end, function() return 'f32' end,
    function() return {} end, function() return { 1, 2 } end, function() return { -1, 0 } end,
    function() return true end, function() return tostring end,
    function() return ridge.ones(2, 3) end, function() return ridge.zeros(0) end,
    function() return ridge.zeros(2, 0, 3) end, function() return ridge.tensor(5) end,
    function() return ridge.ones(3, { dtype = 'i8' }) end,
    function() return ridge.ones(3, { dtype = 'bool' }) end,
    function() return ridge.ones(3, 2, { dtype = 'bf16' }) end,
    function() return ridge.ones(3, 2, { dtype = 'f8e4m3' }) end,
    function() return ridge.ones(3, 1):expand(3, 4) end,
    function() return ridge.randn(4, 3):t() end,
    function() return released end, function() return dropped end,
    function() return ridge.generator(1) end, function() return 'zz' end,
    function() return { dtype = 'f32' } end, function() return { foo = 1 } end,
    function() return coroutine.create(print) end, function() return io.stderr end,
    function() return 5LL end, function() return ridge.nn.Linear(3, 2, { seed = 1 }) end,
  }
end

-- Names under which the work of a function is known further down: a message may begin with those.
local ALSO = {
  mm = { 'matmul' }, t = { 'transpose' }, set_num_threads = { 'set_threads' },
  Linear = { 'linear' }, SKLinear = { 'sketched_linear' }, LowRankLinear = { 'lowrank_linear' },
  Conv2d = { 'conv2d' }, LayerNorm = { 'layer_norm' }, RMSNorm = { 'layer_norm' },
  Embedding = { 'take' },
  ReLU = { 'relu' }, ['x[i]'] = { 'x[{...}]', 'a tensor has no' },
  ['x[i] = y'] = { 'x[{...}]', 'a tensor has no' },
}

local function begins(message, word)
  return message:sub(1, #word) == word
end

local function known(name, message)
  for _, word in ipairs(ALSO[name] or {}) do
    if begins(message, word) then return true end
  end
  return false
end

local complaints, told

--- What an error must be: ridge's own, named after what was called, at the caller's line.
-- What a module says that was given to be called is its own.
local function judge(name, e, given_module)
  local function complain(what)
    local key = name .. what
    if told[key] then return end
    told[key] = true
    complaints[#complaints + 1] = ('%s: %s: %s'):format(name, what,
      blame.is_error(e) and e.message or tostring(e))
  end
  if not blame.is_error(e) then return complain 'raw' end
  local short = name:match '[^.:]+$'
  local plain = short:gsub('_$', '') -- x:add_ is add, in place
  local named = begins(e.message, name) or begins(e.message, short) or begins(e.message, plain)
    or known(short, e.message) or begins(e.message, 'nn.' .. short)
    or begins(e.message, 'nn.' .. name)
    or begins(e.message, 'memory: ')
  local own = given_module and tostring(e):find('in nn.', 1, true)
  if not named and not own then complain 'not named' end
  if e.message:find 'ridge/[%w_/]+%.lua' or e.message:find('attempt to', 1, true) then
    complain 'an error inside ridge'
  end
  if not tostring(e.where):find('hostile_spec.lua', 1, true) then
    complain('blames ' .. tostring(e.where))
  end
end

local is_module = ridge.nn.is_module

local function survives(name, f, n_calls, make)
  for _ = 1, n_calls do
    local a, b, c, d = make[pick(#make)](), make[pick(#make)](), make[pick(#make)](),
      make[pick(#make)]()
    local depth = ridge.memory.depth()
    local ok, e = pcall(function()
      local result = f(a, b, c, d)
      return result
    end)
    ridge.memory.unwind(depth)
    if not ok then
      judge(name, e, is_module(a) or is_module(b) or is_module(c) or is_module(d))
    elseif ridge.is_tensor(e) then
      assert.is_string(tostring(e))
    end
  end
end

local function tensors(make)
  local list = {}
  for _, f in ipairs(make) do
    if ridge.is_tensor(f()) then list[#list + 1] = f end
  end
  return list
end

--- Only the first operand is a tensor for sure: two numbers are no concern of ridge's.
local function operator(name, f, n_calls, make)
  local firsts = tensors(make)
  for _ = 1, n_calls do
    local x = firsts[pick(#firsts)]()
    survives(name, function(b, c)
      if pick(2) == 1 and type(b) == 'number' and name ~= 'x[i]' and name ~= 'x[i] = y' then
        return f(b, x, c)
      end
      return f(x, b, c)
    end, 1, make)
  end
end

describe('hostile input', function()
  before_each(function()
    ridge.memory.set_limit(2 ^ 30)
    complaints, told = {}, {}
  end)
  after_each(function() ridge.memory.set_limit(0) end)

  local function no_complaints() assert.equal('', table.concat(complaints, '\n')) end

  it('to every tensor method ends in a result or an error', function()
    local make = values()
    local firsts = tensors(make)
    for name in pairs(types.of(ridge.ones(1)).methods) do
      local method = ridge.ones(1)[name]
      survives(name, method, 60, make)
      for _ = 1, 120 do
        local x = firsts[pick(#firsts)]()
        survives(name, function(...) return method(x, ...) end, 1, make)
      end
    end
    no_complaints()
  end)

  it('to every function of the namespace', function()
    local make = values()
    local threads = ridge.num_threads()
    for _, name in ipairs { 'tensor', 'empty', 'zeros', 'ones', 'full', 'arange', 'rand', 'randn',
                            'randint', 'concat', 'seed', 'generator', 'capture', 'scope', 'keep',
                            'autocast', 'set_num_threads', 'set_default_backend', 'is_tensor',
                            'profile', 'range', 'geom' } do
      survives(name, ridge[name], 150, make)
      ridge.set_num_threads(threads)
    end
    for _, name in ipairs { 'stats', 'reset_peak', 'peak_of', 'unwind', 'keep', 'scope', 'trim' } do
      survives('memory.' .. name, ridge.memory[name], 60, make)
    end
    for _ = 1, 60 do
      survives('memory.set_limit', ridge.memory.set_limit, 1, make)
      ridge.memory.set_limit(2 ^ 30)
    end
    for _, name in ipairs { 'cpu', 'set_isa', 'set_gemm', 'set_threads' } do
      survives('backend.' .. name, ridge.backend[name], 40, make)
    end
    ridge.set_num_threads(threads)
    no_complaints()
  end)

  it('to measuring, outside of any window', function()
    local make = values()
    for _, name in ipairs { 'protocol', 'calibration', 'flags_from_bits' } do
      survives('measure.' .. name, ridge.measure[name], 60, make)
    end
    no_complaints()
  end)

  it('to layers and their methods', function()
    local make = values()
    local nn = ridge.nn
    for _, name in ipairs { 'Linear', 'LowRankLinear', 'SKLinear', 'Sequential', 'Dropout', 'ReLU',
                            'Conv2d', 'MaxPool2d', 'AvgPool2d', 'CrossEntropyLoss', 'HuberLoss',
                            'cross_entropy', 'mse_loss', 'l1_loss', 'huber_loss',
                            'bce_with_logits', 'break_even', 'round_for_tensor_cores' } do
      survives('nn.' .. name, nn[name], 100, make)
    end
    local layer = nn.Linear(3, 2, { seed = 1 })
    survives('Linear', function(x) return layer(x) end, 100, make)
    survives('ReLU', function(x) return nn.ReLU()(x) end, 100, make)
    survives('Linear', function(x) return nn.Sequential(layer)(x) end, 100, make)
    survives('Conv2d', function(x) return nn.Conv2d(1, 1, 1)(x) end, 60, make)
    survives('max_pool2d', function(x) return nn.MaxPool2d(1)(x) end, 60, make)
    survives('Flatten', function(x) return nn.Flatten()(x) end, 60, make)
    survives('to', function(...) return nn.Linear(3, 2):to(...) end, 60, make)
    survives('SKLinear.from', nn.SKLinear.from, 60, make)
    survives('LowRankLinear.from', nn.LowRankLinear.from, 60, make)
    no_complaints()
  end)

  it('to optimizers and data sets', function()
    local make = values()
    for _, name in ipairs { 'SGD', 'Adam', 'AdamW', 'Lion' } do
      survives('optim.' .. name, ridge.optim[name], 100, make)
    end
    local optimizer = ridge.optim.SGD(ridge.nn.Linear(3, 2))
    for _, name in ipairs { 'step', 'zero_grad', 'clip', 'lr' } do
      survives(name, function(...) return optimizer[name](optimizer, ...) end, 60, make)
    end
    for _, name in ipairs { 'idx', 'mnist', 'Loader' } do
      survives('data.' .. name, ridge.data[name], 100, make)
    end
    survives('data.segments', function(n, opts)
      return ridge.data.segments(type(n) == 'number' and n > 20 and 1.5 or n, opts)
    end, 60, make)
    no_complaints()
  end)

  it('to plans and streams', function()
    local make = values()
    local plan = ridge.capture(function() return ridge.ones(2) + 1 end)
    survives('plan', function(n)
      if type(n) == 'number' and n > 1000 then n = 1.5 end -- runs that take hours are no error
      return plan(n)
    end, 60, make)
    plan:release()
    survives('plan', function(n) return plan(type(n) == 'number' and 1 or n) end, 60, make)
    survives('plan', function() return plan:facts() end, 2, make)
    no_complaints()
  end)

  it('to operators and indexing', function()
    local make = values()
    operator('add', function(a, b) return a + b end, 200, make)
    operator('sub', function(a, b) return a - b end, 200, make)
    operator('mul', function(a, b) return a * b end, 200, make)
    operator('div', function(a, b) return a / b end, 200, make)
    operator('pow', function(a, b) return a ^ b end, 200, make)
    operator('neg', function(a) return -a end, 100, tensors(make))
    operator('x[i]', function(a, b) return a[b] end, 300, make)
    operator('x[i] = y', function(a, b, c) a[b] = c end, 300, make)
    operator('#', function(a) return #a end, 100, tensors(make))
    operator('..', function(a, b) return tostring(a .. tostring(b)) end, 100, make)
    no_complaints()
  end)

  it('names what was released', function()
    local x = ridge.ones(2, 3)
    x:release()
    x:release()
    for name, f in pairs { add = function() return x + x end, sub = function() return 1 - x end,
      relu = function() return x:relu() end, add_ = function() return ridge.ones(1):add_(x) end,
      shape = function() return x.shape end,
      ['nn.Linear'] = function() return ridge.nn.Linear(3, 2)(x) end } do
      local ok, e = pcall(f)
      assert.is_false(ok)
      assert.equal('ERELEASED', e.code)
      assert.equal(name .. ': the tensor f32[2,3] was released', (e.message:match '^[^\n]*'))
    end
  end)

  it('never finds what a layer does inside', function()
    local layer = ridge.nn.Linear(3, 2)
    assert.is_nil(layer.adopt)
    assert.is_false((pcall(ridge.ones(1).release, io.stderr)))
  end)

  it('leaves everything working', function()
    assert.equal(6, ridge.ones(2, 3):sum():item())
    assert.is_true(ridge.capture(function() return ridge.ones(2) + 1 end)() ~= nil)
  end)
end)
