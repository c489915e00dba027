-- SPDX-License-Identifier: MIT
-- What has a memory gives it and takes it, all of it, and a training that is killed goes on with
-- the same bits.
local ridge = require 'ridge'
local checkpoint = require 'ridge.train.checkpoint'
local folders = dofile 'tests/lua/store/folder.lua'
local nn, optim = ridge.nn, ridge.optim

local INF, NAN = math.huge, 0 / 0

-- Two values, tables and tensors included, down to the sign of 0; nan is nan.
local function same(a, b, where)
  assert.are.equal(type(a), type(b), where)
  if ridge.is_tensor(a) then
    assert.are.equal(a:describe(), b:describe(), where)
    assert.same(a:detach():to('cpu'):reshape(a.count):tolist(),
      b:detach():to('cpu'):reshape(b.count):tolist(), where)
  elseif type(a) == 'table' then
    for key in pairs(a) do same(a[key], b[key], where .. '.' .. tostring(key)) end
    for key in pairs(b) do assert.is_not_nil(a[key], where .. '.' .. tostring(key)) end
  elseif a == a or b == b then
    assert.are.equal(a, b, where)
    if a == 0 then assert.are.equal(1 / a, 1 / b, where) end
  end
end

local function parameter(n)
  local x = ridge.arange(1, n, { dtype = 'f32' }):requires_grad_()
  return x
end

-- Gradients that rise and fall, and now and then are not finite.
local function arrive(x, i)
  x:zero_grad()
  local g = ridge.randn(x.count, { generator = ridge.generator(i) }) * (i % 7 + 0.5)
  if i % 5 == 4 then g[1] = i % 2 == 0 and NAN or INF end
  x:backward(g)
end

-- Of everything with a memory: made again, one step of its life, and a number or tensor that shows
-- what it remembers.
local MADE = {}

for _, kind in ipairs { 'norm', 'global_norm', 'value', 'adaptive', 'layer_wise', 'percentile',
  'exponential' } do
  MADE['optim.Clip ' .. kind] = function()
    local x = parameter(6)
    local o = optim.SGD({ x }, { lr = 0.1 })
    local clip = optim.Clip { kind = kind }
    return clip, function(i)
      arrive(x, i)
      local found = clip:apply(o)
      return { found.clipped_norm, found.adaptive_threshold, found.exp_threshold }
    end
  end
end

for _, kind in ipairs { 'detect', 'replace', 'skip', 'restore', 'gradient_zeroing', 'adaptive',
  'gradient_scaling' } do
  MADE['optim.Guard ' .. kind] = function()
    local x = parameter(6)
    local o = optim.SGD({ x }, { lr = 0.1 })
    local guard = optim.Guard { kind = kind, every = 2 }
    return guard, function(i)
      arrive(x, i)
      local found = guard:apply(o)
      if i % 5 == 4 and kind == 'restore' then
        return x:detach():tolist() -- what was kept, whatever this parameter has become
      end
      return { found.total_nan, found.total_inf, found.total_overflow }
    end
  end
end

MADE.Stability = function()
  local x = parameter(6)
  local watch = ridge.Stability(optim.SGD({ x }, { lr = 0.1 }), { clip = { kind = 'adaptive' },
    guard = { kind = 'skip' } })
  return watch, function(i)
    arrive(x, i)
    watch:step(i % 3 == 2 and NAN or i)
    return { watch:summary(), watch.history }
  end
end

MADE['optim.GradScaler'] = function()
  local x = parameter(6)
  local o = optim.SGD({ x }, { lr = 0 })
  local scaler = optim.GradScaler { scale = 64, interval = 3 }
  return scaler, function(i)
    arrive(x, i)
    scaler:step(o)
    return { scaler.factor, scaler.good, scaler.skipped, scaler.overflowed }
  end
end

for name, make in pairs {
  StepLR = function(o) return optim.StepLR(o, { every = 2, factor = 0.5 }) end,
  CosineLR = function(o) return optim.CosineLR(o, { steps = 12, warmup = 3 }) end,
  OneCycleLR = function(o) return optim.OneCycleLR(o, { steps = 12 }) end,
  PlateauLR = function(o) return optim.PlateauLR(o, { patience = 1, factor = 0.5 }) end,
} do
  MADE['optim.' .. name] = function()
    local o = optim.SGD({ parameter(2) }, { lr = 0.3 })
    local schedule = make(o)
    return schedule, function(i) return { schedule:step((i * 7) % 4 + 1), o:lr() } end
  end
end

for name, opts in pairs { SGD = { lr = 0.1, momentum = 0.9, nesterov = true, weight_decay = 0.1 },
  Adam = { lr = 0.1, amsgrad = true }, AdamW = { lr = 0.1 }, Lion = { lr = 0.1 } } do
  MADE['optim.' .. name] = function()
    local x = parameter(6)
    local o = optim[name]({ x }, opts)
    local was = x:detach():clone()
    return o, function(i)
      x:zero_grad()
      x:backward(ridge.randn(6, { generator = ridge.generator(i) }))
      ridge.no_grad(function() x:copy_(was) end) -- the step alone is looked at
      o:scale_lr(1 / i)
      o:step()
      return { x:detach():tolist(), o:steps(), o:lr() }
    end
  end
end

MADE.generator = function()
  local g = ridge.generator(3)
  return g, function() return ridge.rand(5, { generator = g }):tolist() end
end

MADE['data.Loader'] = function()
  local x = ridge.arange(1, 10)
  local loader = ridge.data.Loader({ x }, { batch = 3, seed = 4 })
  return loader, function()
    local seen = {}
    for part in loader:each() do seen[#seen + 1] = part:tolist() end
    return seen
  end
end

MADE['data.Loader threads'] = function()
  local loader = ridge.data.Loader({ ridge.arange(1, 10) }, { batch = 3, seed = 4, workers = 2 })
  return loader, function()
    local seen = {}
    for part in loader:each() do seen[#seen + 1] = part:tolist() end
    return seen
  end
end

MADE.module = function()
  local net = nn.Sequential(nn.Linear(3, 4, { seed = 1 }), nn.BatchNorm(4)):train()
  return net, function(i)
    local y = net(ridge.randn(5, 3, { generator = ridge.generator(i) }))
    return { y:detach():reshape(20):tolist(), net.children[2].module:state() }
  end
end

-- A class of ridge.optim without a memory of its own: what it is made for has it.
local WITHOUT = { Optimizer = true }

describe('everything with a memory', function()
  local folder

  before_each(function() folder = folders.new() end)
  after_each(function() folders.remove(folder) end)

  it('comes back from a file whatever it holds, long lists too', function()
    local rows, mixed, deep, late, pairs_of = {}, {}, {}, {}, {}
    for i = 1, 300 do
      rows[i] = { step = i, loss = i % 7 == 0 and NAN or i % 11 == 0 and -INF or i / 3, stepped =
        i % 2 == 0, action = ({ 'none', 'skipped', 'déjà' })[i % 4], zero = -0.0 }
      if i % 5 == 0 then rows[i].custom = 2 ^ 60 + i * 4096 end
      mixed[i] = { a = i % 2 == 0 and 'x' or i }
      deep[i] = { a = { i } }
      late[i] = { a = i < 300 and 'x' .. i or i }
      pairs_of[i] = { i, 2 * i }
    end
    local state = { epoch = 3, model = { w = ridge.ones(2) }, optimizer = {}, rows = rows,
      mixed = mixed, deep = deep, late = late, pairs_of = pairs_of,
      few = { { a = 1 }, { a = NAN } }, none = {}, numbers = { 1, INF },
      x = { y = ridge.randn(3), z = { text = 'a "b"\n' } } }
    local path = folder .. '/state'
    checkpoint.save(path, state)
    local found = checkpoint.load(path)
    same(state, found, 'state')
    assert.are.equal(-INF, 1 / found.rows[300].zero)
    assert.is_nil(found.rows[4].action)
  end)

  it('is walked here', function()
    local names = {}
    for _, known in ipairs { optim, getmetatable(optim).late } do
      for name in pairs(known) do names[name] = true end
    end
    assert.is_true(names.PlateauLR)
    for name in pairs(names) do
      local value = optim[name]
      local covered = WITHOUT[name]
      for made in pairs(MADE) do
        covered = covered or made:match '^optim%.(%w+)' == name
      end
      assert.is_true(covered or type(value) ~= 'table', 'optim.' .. name)
    end
  end)

  for name, make in pairs(MADE) do
    it('gives it, keeps it in a file and goes on with it: ' .. name, function()
      for _, at in ipairs { 0, 1, 4, 9 } do
        local whole, live = make()
        for i = 1, at do live(i) end
        local path = folder .. '/state'
        checkpoint.save(path, { epoch = 0, model = {}, optimizer = {}, it = whole:state() })
        local second, again = make()
        local state = checkpoint.load(path).it
        same(whole:state(), state, name)
        local ok = pcall(second.load_state, second, 'no state')
        assert.is_false(ok)
        assert.are.equal(second, second:load_state(state))
        same(whole:state(), second:state(), name)
        if name:match 'Guard' or name:match 'Clip' or name == 'Stability' then
          -- parameters are not theirs: both go on from the same ones
          whole, live = make()
          whole:load_state(state)
        end
        for i = at + 1, at + 11 do same(live(i), again(i), ('%s, %d'):format(name, i)) end
        same(whole:state(), second:state(), name)
      end
    end)
  end

  it('are refused with a sentence where a file holds anything else, and nothing is changed',
    function()
      local x = ridge.randn(40, 6, { generator = ridge.generator(3) })
      local y = x:argmax(2)
      local function trainer()
        local net = nn.Sequential(nn.Linear(6, 6, { seed = 1 }), nn.BatchNorm(6))
        local o = optim.Adam(net, { lr = 0.01 })
        return ridge.Trainer(net, { optimizer = o, say = function() end, folder = folder,
          schedule = optim.PlateauLR(o), stability = { clip = { kind = 'adaptive' },
            guard = { kind = 'restore' } } })
      end
      local t = trainer()
      local loader = ridge.data.Loader({ x, y }, { batch = 10, seed = 1 })
      t:fit(loader, { epochs = 3, validate = loader })
      local other = trainer()
      local before = checkpoint.still(other:state())
      local values = { 'x', -1, 0.5, 2 ^ 60, true, {}, { 1, 'a' }, ridge.ones(2), NAN, INF, 0 }
      local draw, refused = ridge.generator(13), 0
      local function pick(n)
        return math.floor(ridge.rand(1, { generator = draw }):item() * n) % n + 1
      end
      -- every place of the state, in turn, holds something else or nothing
      local function places(value, path, list)
        for key, each in pairs(value) do
          local here = { unpack(path) }
          here[#here + 1] = key
          list[#list + 1] = here
          if type(each) == 'table' then places(each, here, list) end
        end
        return list
      end
      local all = places(t:state(), {}, {})
      assert.is_true(#all > 120)
      for _, path in ipairs(all) do
        local state = checkpoint.still(t:state())
        local at = state
        for i = 1, #path - 1 do at = at[path[i]] end
        at[path[#path]] = pick(4) > 1 and values[pick(#values)] or nil
        local where = table.concat(path, '.')
        if pcall(checkpoint.save, folder .. '/last.safetensors', state) then -- it can be written
          local ok, err = pcall(other.resume, other)
          if ok then
            other:load_state(before)
          else
            refused = refused + 1
            assert.is_true(require('ridge.blame').is_error(err), where .. ': ' .. tostring(err))
            same(before, other:state(), where)
          end
        end
      end
      assert.is_true(refused > 40, refused)
    end)

  -- Files of other tools lose what is not asked for here; a random place above may not be one.
  it('is whole: a state of a trainer lacks nothing, and its numbers are in their ranges', function()
    local net = nn.Linear(3, 2, { seed = 1 })
    local t = ridge.Trainer(net, { optimizer = optim.SGD(net, { lr = 0.1 }), say = function() end })
    t:fit({ ridge.randn(4, 3), ridge.zeros(4, { dtype = 'i64' }) }, { epochs = 2 })
    local before = checkpoint.still(t:state())
    local function refused(name, value, words)
      local state = checkpoint.still(t:state())
      state[name] = value
      local ok, err = pcall(t.load_state, t, state)
      assert.is_false(ok, name)
      assert.matches('Trainer:load_state', tostring(err))
      assert.matches(words, tostring(err))
      same(before, t:state(), name)
    end
    local n = 0
    for name, value in pairs(before) do
      n = n + 1
      refused(name, nil, name)
      refused(name, type(value) == 'table' and 3 or {}, name)
    end
    assert.are.equal(13, n)
    for name, value in pairs { parts = 0, seconds = -1e-9, epoch = -1, waited = -1, steps = -1 } do
      refused(name, value, name)
    end
    refused('epoch', 1, '2 rows for 1 epochs')
    refused('history', { before.history[1] }, '1 rows for 2 epochs')
    refused('history', { before.history[2], before.history[1] }, 'row 1 of the history is none')
    refused('history', { before.history[1], 'two' }, 'row 2 of the history is none')
    refused('metrics', { 7 }, 'row 1 of the history is none')
    refused('loaders', { train = 5 }, 'the orders of a loader are 5')
    -- what fits of it is not taken either
    local state = checkpoint.still(t:state())
    state.model.weight, state.optimizer = state.model.weight + 1, {}
    local ok, err = pcall(t.load_state, t, state)
    assert.is_false(ok)
    assert.matches('is missing', tostring(err))
    same(before, t:state(), 'optimizer')
    assert.are.equal(t, t:load_state(before))
    -- a part that the state has none of stays
    local o = optim.SGD(net, { lr = 0.1 })
    local schedule = optim.StepLR(o, { every = 1, factor = 0.5 })
    schedule:step()
    ridge.Trainer(net, { optimizer = o, schedule = schedule }):load_state(before)
    assert.are.equal(1, schedule.t)
  end)

  it('is refused where it is of something else, and nothing is changed', function()
    local o = optim.SGD({ parameter(2) }, { lr = 0.5 })
    local step, plateau = optim.StepLR(o, { every = 1, factor = 0.5 }), optim.PlateauLR(o)
    step:step()
    local ok, err = pcall(plateau.load_state, plateau, step:state())
    assert.is_false(ok)
    assert.matches('PlateauLR:load_state: the state is of optim.StepLR', tostring(err))
    assert.are.equal(0, plateau.t)
    ok, err = pcall(step.load_state, step, plateau:state()) -- which has more fields
    assert.is_false(ok)
    assert.matches('StepLR:load_state: the state is of optim.PlateauLR', tostring(err))
    assert.are.equal(1, step.t)
    local cosine = optim.CosineLR(o, { steps = 3 })
    ok, err = pcall(cosine.load_state, cosine, step:state())
    assert.is_false(ok)
    assert.matches('the state is of optim.StepLR', tostring(err))
    assert.are.equal(0, cosine.t)
  end)
end)

-- -- Killed ---------------------------------------------------------------------------------------

describe('a training that is killed', function()
  local folder

  before_each(function() folder = folders.new() end)
  after_each(function() folders.remove(folder) end)

  -- As text, because a child that kills itself runs the same.
  local TRAINING = [[
    local ridge = require 'ridge'
    local nn, optim = ridge.nn, ridge.optim
    return function(case, folder, die)
      ridge.seed(11)
      local x = ridge.randn(44, 6, { generator = ridge.generator(3) })
      local y = x:argmax(2)
      local net = nn.Sequential(nn.Linear(6, 12, { seed = 1 }), nn.BatchNorm(12), nn.Dropout(0.2),
        nn.Linear(12, 6, { seed = 2 }))
      local o = optim.AdamW(net, { lr = 0.02 })
      local calls = 0
      local opts = { optimizer = o, folder = folder, say = function() end,
        loss = function(output, labels)
          calls = calls + 1
          if calls == die then
            require('ffi').cdef 'int getpid(void); int kill(int, int);'
            require('ffi').C.kill(require('ffi').C.getpid(), 9)
          end
          return nn.cross_entropy(output, labels)
        end }
      for name, value in pairs(case(o, optim)) do opts[name] = value end
      local t = ridge.Trainer(net, opts)
      local loader = ridge.data.Loader({ x, y }, { batch = 10, seed = 5 })
      local test = ridge.data.Loader({ x, y }, { batch = 7, seed = 6 })
      return t, function(epochs) return t:fit(loader, { epochs = epochs, validate = test }) end, net
    end]]

  local CASES = {
    plain = "return function() return { clip = 1, accumulate = 2 } end",
    planned = [[return function(o, optim)
      return { compile = true, schedule = optim.CosineLR(o, { steps = 25, warmup = 4 }) } end]],
    scaled = [[return function(o, optim)
      return { scaler = optim.GradScaler { scale = 64, interval = 3 }, clip = 1,
        schedule = optim.OneCycleLR(o, { steps = 25 }) } end]],
    plateau = [[return function(o, optim)
      return { schedule = optim.PlateauLR(o, { patience = 0, factor = 0.5, threshold = 0.2 }) }
      end]],
  }
  for _, kind in ipairs { 'adaptive', 'exponential', 'percentile', 'layer_wise' } do
    CASES['clip ' .. kind] = ([[return function(o, optim)
      return { stability = { clip = { kind = '%s', max_norm = 0.2 }, guard = { kind = 'skip' } },
        schedule = optim.StepLR(o, { every = 3, factor = 0.7 }) } end]]):format(kind)
  end
  CASES['guard restore'] = [[return function()
    return { stability = { guard = { kind = 'restore', every = 3 } } } end]]

  for name, case in pairs(CASES) do
    it('goes on with the same bits: ' .. name, function()
      local program = folder .. '/child.lua'
      local file = assert(io.open(program, 'w'))
      file:write(('local t, fit = (function() %s end)()((function() %s end)(), %q, 17)\nfit(5)\n')
        :format(TRAINING, case, folder))
      file:close()
      local said, status = folders.run('./ridge ' .. program)
      assert.are.equal(137, status, said) -- killed with 9, in an epoch
      local make, with = loadstring(TRAINING)(), loadstring(case)()
      local whole, fit_whole, net = make(with, folder .. '/whole')
      fit_whole(5)
      local stream = ridge.rand(4):tolist()
      ridge.seed(99)
      local second, fit, again = make(with, folder)
      assert.is_true(second:resume()) -- no loader: that of fit goes on
      assert.is_true(second.epoch > 0 and second.epoch < 5)
      fit(5)
      assert.same(stream, ridge.rand(4):tolist())
      same(net:state(), again:state(), 'model')
      local one, two = whole:state(), second:state()
      for _, state in ipairs { one, two } do -- times are those of each run
        state.seconds, state.stream = nil, nil
        for _, row in ipairs(state.history) do
          row.seconds, row.rows_per_s, row.peak_bytes = nil, nil, nil
        end
      end
      same(one, two, name)
    end)
  end

  it('keeps numbers that JSON has not, and tells a number that is missing from 0', function()
    local place = folders.new()
    local rows = {}
    for i = 1, 40 do rows[i] = { a = i, b = i % 3 == 0 and -0.0 or nil, c = 'x' .. i % 2 } end
    local state = { model = {}, optimizer = {}, epoch = 0, rows = rows,
      short = { zero = -0.0, plain = 0, nan = NAN, most = INF, least = -INF, text = 'nan' } }
    checkpoint.save(place .. '/x.safetensors', state)
    local found = checkpoint.load(place .. '/x.safetensors')
    folders.remove(place)
    assert.are.equal(-INF, 1 / found.short.zero)
    assert.are.equal(INF, 1 / found.short.plain)
    assert.is_true(found.short.nan ~= found.short.nan)
    assert.same({ INF, -INF, 'nan' }, { found.short.most, found.short.least, found.short.text })
    assert.are.equal(-INF, 1 / found.rows[3].b)
    assert.is_nil(found.rows[4].b)
    assert.same({ 40, 'x0' }, { found.rows[40].a, found.rows[40].c })
  end)

  it('reads rows whose numbers are NaN of any bits', function()
    -- LuaJIT takes 64 ones for nil, and other NaNs for addresses of objects
    local path, rows = os.tmpname(), {}
    for i = 1, 40 do rows[i] = { loss = 1234.5678, epoch = i } end
    checkpoint.save(path, { model = {}, optimizer = {}, history = rows })
    local ffi = require 'ffi'
    local there = io.open(path, 'rb')
    local text = there:read '*a'
    there:close()
    local mark = ffi.string(ffi.new('double[1]', 1234.5678), 8)
    local at = assert(text:find(mark, 1, true))
    for _, bits in ipairs { ('\255'):rep(8), '\1\2\3\4\0\0\253\255' } do
      there = io.open(path, 'wb')
      there:write(text:sub(1, at - 1), bits, text:sub(at + 8))
      there:close()
      local history = checkpoint.load(path).history
      assert.equal('number', type(history[1].loss))
      assert.is_true(history[1].loss ~= history[1].loss)
      assert.equal(1234.5678, history[2].loss)
    end
    os.remove(path)
  end)
end)
