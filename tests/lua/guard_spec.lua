-- SPDX-License-Identifier: MIT
--- What Lua itself would say about a mistake inside ridge is a sentence about the call.

local ridge = require 'ridge'
local blame = require 'ridge.blame'
local guard = require 'ridge.guard'
local help = require 'ridge.repl.help'

local nn, optim = ridge.nn, ridge.optim

local function told(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok)
  assert.is_true(blame.is_error(e), tostring(e))
  return e
end

describe('a result whose fields were changed', function()
  local x = ridge.randn(4, 4)
  local net = nn.Sequential(nn.Linear(4, 4), nn.ReLU()):eval()
  local mark = ridge.memory.mark()
  local keep = ridge.ones(1000)
  local compiled = ridge.compile(net, { mode = 'default', say = function() end })
  compiled(x)
  local graph = ridge.graph(net, x):optimize { 'dead_code_elimination' }
  local labelled = ridge.data.Loader({ x, ridge.zeros(4) }, { batch = 4 })
  local quantized = ridge.quant.weights(net, { bits = 4, pad = true, rows = false })
  local found = select(2, ridge.quant.search(net, { validate = labelled, kinds = { 'i8' } }))
  local MADE = {
    quantized = ridge.quant.report(quantized), search = found,
    sensitivity = ridge.quant.sensitivity(net, { validate = labelled, rows = false,
      kinds = { 'i8' } }),
    peeked = ridge.peek 'tests/fixtures/gradients.safetensors',
    growth = mark:grew(), report = compiled:report(), changes = graph:changes(),
    memory = graph:memory(), analysis = net:analyze(x, { rounds = 1, roof = false }),
    bottlenecks = net:analyze(x, { rounds = 1, roof = false }):find_bottlenecks(),
    timeline = ridge.memory.timeline(function() return net(x) end),
    profile = ridge.profile(function() return net(x) end),
    stages = ridge.memory.stages { model = function() return net end,
      input = function() return x end },
    smoothed = ridge.quant.smooth(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)):eval(),
      { calibrate = labelled }),
    choices = ridge.backend.choices(), loader = ridge.data.Loader({ x, x }, { batch = 2 }),
  }

  for name, made in pairs(MADE) do
    it('is still printed: ' .. name, function()
      assert.is_string(tostring(made))
      local fields = {}
      for key in pairs(made) do fields[#fields + 1] = key end
      for _, key in ipairs(fields) do
        local before = rawget(made, key)
        for _, other in ipairs { 5LL, 5, 'x', {}, true } do
          rawset(made, key, other)
          local ok, text = pcall(tostring, made)
          rawset(made, key, before)
          assert.is_true(ok, tostring(key) .. ': ' .. tostring(text))
          assert.is_nil(text:find 'ridge/[%w_/]+%.lua')
        end
      end
      assert.is_string(tostring(made))
    end)
  end

  it('has methods that say what they were called with', function()
    for _, name in ipairs { 'quantized', 'search', 'sensitivity', 'peeked' } do
      for _, method in ipairs { 'print', 'plot', 'text' } do
        local f = MADE[name][method]
        for _, other in ipairs { 'relu', 5, {}, ridge.ones(2) } do
          local ok, e = pcall(f or error, other)
          assert.is_true(not f or ok or blame.is_error(e), name .. ':' .. method)
        end
      end
    end
  end)

  it('says what it is', function()
    local growth = mark:grew()
    assert.is_not_nil(keep)
    growth[1] = 5LL
    assert.matches("^<table: its fields were changed: .*'int64_t' has no member named 'bytes'>$",
      tostring(growth))
  end)

  it('does not hide what is no mistake of its fields', function()
    local shows = setmetatable({}, { __name = 'Shown', __tostring = guard.text(function(self)
      error(self.e, 0)
    end) })
    shows.e = blame.object('interrupted', 'EINTR')
    local ok, e = pcall(tostring, shows)
    assert.same({ false, 'EINTR' }, { ok, e.code })
    shows.e = 'not enough memory'
    ok, e = pcall(tostring, shows)
    assert.same({ false, 'not enough memory' }, { ok, e })
    shows.e = 'lua/ridge/memory.lua:3: attempt to index a nil value'
    assert.equal('<Shown: its fields were changed: attempt to index a nil value>', tostring(shows))
  end)
end)

local CASES = {
  { 'feature_attention: q is nil; expected Tensor', function() nn.feature_attention() end },
  { 'nn.class: a parent is a class of modules, got 5', function() nn.class('x', 5) end },
  { 'optim.Optimizer is what optimizers are made of', function() optim.Optimizer(nil) end },
  { 'nn.Module: it has no forward, which a class of modules defines',
    function() nn.Module()(ridge.ones(2)) end },
  { 'x[{...}]: the step of axis 1 is a whole number from 1, got a table',
    function() return ridge.ones(3, 3)[{ { 1, 2, {} } }] end },
  { 'Plan:run: it is called with a colon on an object of its class, got nil',
    function() ridge.capture(function() return ridge.ones(2) + 1 end).run() end },
  { '<: there is no < of f32[3] and 2; x:lt(y) compares elements',
    function() return ridge.ones(3) < 2 end },
  { '<=: there is no <= of 2 and f32[3]; x:le(y) compares elements',
    function() return 2 <= ridge.ones(3) end },
  { '%: there is no % of f32[3] and 2; there is x - (x / y):floor() * y',
    function() return ridge.ones(3) % 2 end },
  { 'a tensor is no function: f32[3] cannot be called; x[i] is an element',
    function() ridge.ones(3)(1) end },
  { "Stability:step: a loss is a number or a tensor of one, got 'x'",
    function() ridge.Stability(optim.SGD(nn.Linear(2, 2))):step 'x' end },
  { 'Optimizer:step: it is called with a colon on an object of its class, got nil',
    function() optim.SGD(nn.Linear(2, 2)).step() end },
  { 'Loader:each: it is called with a colon on an object of its class, got nil',
    function() ridge.data.Loader({ ridge.ones(2, 2) }, { batch = 1 }).each() end },
  { 'Timeline:overlap: is_one is true; expe',
    function() ridge.timeline(function() return ridge.ones(2) + 1 end):overlap(true) end },
  { 'random: opt is 0; expected table or nil', function() ridge.random(1, 4, 0) end },
}

describe('what Lua would say', function()
  it('is a sentence about what was handed over, at the line of the call', function()
    for _, case in ipairs(CASES) do
      local e = told(case[2])
      local line = debug.getinfo(case[2], 'S').linedefined
      assert.equal(case[1], e.message:sub(1, #case[1]))
      assert.equal(('guard_spec.lua:%d'):format(line), tostring(e.where):match '[^/]*$')
    end
  end)

  it('keeps what is called on an object of another class from leaving its fields there', function()
    local loader = ridge.data.Loader({ ridge.ones(4, 2) }, { batch = 2 })
    local sgd = optim.SGD(nn.Linear(2, 2))
    for _, case in ipairs {
      { optim.Adam.init, loader, {}, 'data.Loader' }, { sgd.step, loader, {}, 'data.Loader' },
      { nn.Linear.init, sgd, { 3, 4 }, 'optim.SGD' }, { nn.Linear.train, sgd, {}, 'optim.SGD' },
      { nn.Linear.init, nn.Dropout(0.5), { 3, 4 }, 'nn.Dropout' },
      { nn.Module.init, {}, {}, 'table' },
    } do
      local f, object, arguments, what = unpack(case)
      local before = {}
      for key, value in pairs(object) do before[key] = value end
      local e = told(f, object, unpack(arguments))
      assert.matches('it is called with a colon on an object of its class, got an? '
        .. what:gsub('%.', '%%.'), e.message)
      assert.same(before, object)
    end
    local rows = require('ridge.sweep.rows').new { { a = 1 }, { a = 2 } }
    local plan = ridge.capture(function() return ridge.ones(2) + 1 end)
    for name, f in pairs { head = rows.head, where = rows.where, run = plan.run,
      nodes = ridge.graph(function() return ridge.ones(2) + 1 end).nodes } do
      for _, object in ipairs { { 1, 2 }, sgd, name == 'run' and rows or plan } do
        assert.matches('it is called with a colon on an object of its class, got an? ',
          told(f, object, 1).message)
      end
    end
    local own = nn.class 'own'
    function own:init(...) nn.Linear.init(self, ...) end -- Linear is none of its parents
    assert.matches('on an object of its class, got an own', told(own, 2, 2).message)
  end)

  it('is left as it is where the mistake is the user\'s own', function()
    local nothing = nil
    local function own() return nothing.y end
    for _, f in ipairs { ridge.timeline, ridge.anomaly, ridge.capture } do
      local ok, e = pcall(f, own)
      assert.is_false(ok)
      assert.matches('guard_spec.lua:%d+: attempt to index', tostring(e))
    end
    local Broken = nn.class 'Broken'
    function Broken.forward() return own() end
    local ok, e = pcall(Broken(), ridge.ones(2))
    assert.is_false(ok)
    assert.matches('guard_spec.lua:%d+: attempt to index', tostring(e))
    -- and the module that was left by it is not named by what comes next
    assert.is_nil(told(function() ridge.ones(2):view(3) end).message:find('in Broken', 1, true))
  end)

  it('has a sentence too where a method ends in a call of C, which leaves no line', function()
    local tail = guard.wrap(function(list) return table.concat(list) end)
    assert.matches('the arguments do not fit', told(function() tail(nil) end).message)
    local watched = ridge.Stability(optim.SGD(nn.Linear(2, 2)))
    watched:step(0 / 0)
    local figure = watched:plot()
    assert.matches('^Figure:text: it is called with a colon', told(function()
      figure.text {}
    end).message)
  end)

  it('names what was called where the mistake is inside of a state', function()
    for _, each in ipairs { { optim.Clip(), 'apply', 'Clip:apply: optimizer is nil' },
        { optim.GradScaler(), 'step', 'Scaler:step: optimizer is nil' } } do
      assert.matches('^' .. each[3], told(function() each[1][each[2]](each[1]) end).message)
    end
    assert.equal('Clip:apply: the arguments do not fit: optimizer = a nn.Linear',
      told(function() optim.Clip():apply(nn.Linear(2, 2)) end).message)
    assert.matches('^load: path is nil', told(function() ridge.graph.load() end).message)
  end)

  it('keeps escapes and addresses to itself', function()
    assert.equal('load: \\027[31m: No such file or directory',
      told(function() ridge.load '\27[31m' end).message)
    assert.equal('generator: a seed is a whole number from 0 to 2^53, got a table',
      told(function() ridge.generator {} end).message)
  end)

  it('hides nothing from help', function()
    local loader = ridge.data.Loader({ ridge.ones(2, 2) }, { batch = 1 })
    assert.are_not.equal(loader.each, guard.original(loader.each))
    assert.equal('each', help.entry_of(loader.each).name)
    assert.equal('random', help.entry_of(ridge.random).name)
  end)
end)
