-- SPDX-License-Identifier: MIT
--- The trainer beside a training written out: random feeds of uneven batches, steps of several of
--- them, labels that are ignored and classes that are weighed, clipping, rates that change, plans
--- and batches in parts. The model knows one rule: a step is that of all its rows at once. And
--- random states, there and back.

local checkpoint = require 'ridge.train.checkpoint'
local folders = dofile 'tests/lua/store/folder.lua'
local seeded = dofile 'tests/lua/seeded.lua'
local ridge = require 'ridge'
local nn, optim = ridge.nn, ridge.optim

local IGNORED = 2

local random -- a function: a whole number from 1 to n

local function one_in(n) return random(n) == 1 end

-- A small net with buffers of its own in f64, the same for the same seed.
local function made(seed)
  return nn.Sequential(nn.Linear(3, 5, { seed = seed }), nn.Tanh(),
    nn.Linear(5, 4, { seed = seed + 1 })):to 'f64'
end

local function rows(n, seed)
  return ridge.randn(n, 3, { generator = ridge.generator(seed), dtype = 'f64' })
end

-- Labels of n rows of which some are ignored, but never all.
local function labels(n)
  local list = { random(2) - 1 }
  for i = 2, n do list[i] = random(4) - 1 end
  return ridge.tensor(list, { dtype = 'i64' })
end

local function targets(n, seed)
  return ridge.randn(n, 4, { generator = ridge.generator(seed), dtype = 'f64' })
end

-- A loader of these batches that says of its length what it likes.
local function feed(list, len)
  return { len = len and function() return len end or nil, each = function()
    local i = 0
    return function()
      i = i + 1
      if list[i] then return list[i][1], list[i][2] end
    end
  end }
end

local function batches(n, kind, seed)
  local list = {}
  for i = 1, n do
    local count = random(6)
    list[i] = { rows(count, seed + i), kind == 'labels' and labels(count)
      or targets(count, seed + 50 + i) }
  end
  return list
end

local function joined(list, from, to)
  local x, y = {}, {}
  for i = from, to do x[#x + 1], y[#y + 1] = list[i][1], list[i][2] end
  return ridge.concat(x, 1), ridge.concat(y, 1)
end

-- What a mean over rows divides by.
local function weight_of(case, y)
  if case.kind ~= 'labels' or not case.entropy then return y:size(1) end
  local sum = 0
  for i = 1, y:size(1) do
    local label = y[i]:item()
    if label ~= case.entropy.ignore then
      sum = sum + (case.entropy.weight and case.entropy.weight[label + 1]:item() or 1)
    end
  end
  return sum
end

local function drawn(seed)
  random = seeded(seed)
  local case = { seed = seed, kind = one_in(2) and 'labels' or 'targets', n = random(9),
    accumulate = random(4), epochs = random(3), clip = one_in(3) and 0.5 or nil,
    compile = one_in(3), parts = one_in(3) and random(3) or 1, every = random(3),
    momentum = one_in(2) and 0.9 or 0, schedule = one_in(2), validate = not one_in(4),
    log_every = random(4) - 1 }
  case.list = batches(case.n, case.kind, 100 * seed)
  case.said = ({ case.n, case.n, nil, random(12) })[random(4)]
  case.test = batches(random(4), case.kind, 100 * seed + 40)
  if case.kind == 'labels' then
    case.entropy = ({ { ignore = IGNORED }, { ignore = IGNORED,
      weight = ridge.tensor({ 1, 5, 0.5, 2 }, { dtype = 'f64' }) * 10 ^ (random(3) - 3) },
      {} })[random(3)]
    function case.loss(o, y) return nn.cross_entropy(o, y, case.entropy) end
  else
    case.loss = nn.mse_loss
  end
  return case
end

-- How many batches each step has: a feed that says how long it is has fewer in the last one.
local function steps_of(case)
  local list, at = {}, 0
  while at < case.n do
    local left = case.said and case.said - at or 0
    local n = math.min(case.accumulate, left >= 1 and left or case.accumulate, case.n - at)
    list[#list + 1] = { at + 1, at + n }
    at = at + n
  end
  return list
end

-- The same training by hand: losses of the steps, of the epochs, of the validation, its hits.
local function by_hand(case, net)
  local o = optim.SGD(net, { lr = 0.1, momentum = case.momentum })
  local found = { curve = {}, history = {}, rates = {}, lines = {} }
  local taken = 0
  for epoch = 1, case.epochs do
    net:train()
    local sum, weight, done = 0, 0, 0
    for _, step in ipairs(steps_of(case)) do
      for i = step[1], step[2] do -- before the step, as each batch saw it
        local w = weight_of(case, case.list[i][2])
        sum, weight = sum + case.loss(net(case.list[i][1]), case.list[i][2]):item() * w, weight + w
        done = done + 1
        if case.log_every > 0 and done % case.log_every == 0 then
          found.lines[#found.lines + 1] = ('epoch %d/%d  batch %d%s  loss %.4f  '):format(epoch,
            case.epochs, done, case.said and '/' .. case.said or '', sum / weight)
        end
      end
      local x, y = joined(case.list, step[1], step[2])
      o:zero_grad()
      local loss = case.loss(net(x), y)
      loss:backward()
      found.curve[#found.curve + 1] = loss:item()
      local norm = 0
      for _, p in ipairs(net:parameters()) do
        norm = norm + p.tensor.grad:to('f64'):square():sum():item()
      end
      -- the formula of torch.nn.utils.clip_grad_norm_
      local scale = case.clip and math.min(1, case.clip / (math.sqrt(norm) + 1e-6))
      o:step { scale = scale and ridge.full(scale, { dtype = 'f64' }) or nil }
      taken = taken + 1
      if case.schedule then o:lr(0.1 * 0.5 ^ math.floor(taken / case.every)) end
    end
    found.rates[epoch] = o:lr()
    found.history[epoch] = sum / weight
    net:eval()
    local x, y = joined(case.test, 1, #case.test)
    local out = net(x)
    found.test = case.loss(out, y):item()
    if case.kind == 'labels' then
      local guess, hits, n = out:argmax(2), 0, 0
      for i = 1, y:size(1) do
        local label = y[i]:item()
        if label ~= case.entropy.ignore then
          n, hits = n + 1, hits + (guess[i]:item() == label and 1 or 0)
        end
      end
      found.accuracy = hits / n
    end
  end
  return found
end

-- A random value that a state may hold: numbers of all kinds, texts, tensors, lists of rows.
local function value_of(depth)
  local kind = random(depth > 0 and 8 or 5)
  if kind == 1 then
    return ({ 0, -0.0, 1 / 3, -7, 2 ^ 60, 1 / 0, -1 / 0, 0 / 0, 5e-324, 1e300 })[random(10)]
  elseif kind == 2 then
    return ({ '', 'text', 'a "b"\n\t', 'déjà', 'nan', 'x' })[random(6)]
  elseif kind == 3 then
    return random(2) == 1
  elseif kind == 4 then
    return ridge.randn(random(3), { generator = ridge.generator(random(99)) })
  elseif kind == 5 then
    return random(1000)
  elseif kind == 6 then
    local out = {}
    for _ = 1, random(4) do out['k' .. random(9)] = value_of(depth - 1) end
    return out
  elseif kind == 7 then
    local out = {}
    for i = 1, random(5) do out[i] = value_of(depth - 1) end
    return out
  end
  -- rows of columns that have one kind each, but for some: long ones are kept by column
  local out, kinds, spoilt = {}, {}, random(6) == 1
  for c = 1, random(4) do kinds[c] = random(3) end
  for i = 1, ({ 1, 31, 32, 33, 70 })[random(5)] do
    local row = {}
    for c, each in ipairs(kinds) do
      if random(5) > 1 then
        row['c' .. c] = each == 1 and ({ i / 3, 0 / 0, -0.0, 1 / 0, 7 })[random(5)]
          or each == 2 and ({ 'none', 'some', '' })[random(3)] or random(2) == 1
      end
    end
    if spoilt and i % 30 == 0 then row.c1 = {} end
    if row[next(row)] == nil then row.c1 = ({ 1, 'none', false })[kinds[1]] end
    out[i] = row
  end
  return out
end

local function same(a, b, where)
  assert.are.equal(type(a), type(b), where)
  if ridge.is_tensor(a) then
    assert.is_true(a:describe() == b:describe() and a:equal(b), where)
  elseif type(a) == 'table' then
    for key, each in pairs(a) do same(each, b[key], where .. '.' .. tostring(key)) end
    for key in pairs(b) do assert.is_true(a[key] ~= nil, where .. '.' .. tostring(key)) end
  else
    assert.is_true(a == b and (a ~= 0 or 1 / a == 1 / b) or a ~= a and b ~= b,
      ('%s: %s, %s'):format(where, tostring(a), tostring(b)))
  end
end

describe('a random state', function()
  it('comes back from its file as it was', function()
    local folder = folders.new()
    finally(function() folders.remove(folder) end)
    drawn(1)
    for n = 1, 60 do
      local state = { model = {}, optimizer = {}, epoch = n }
      for i = 1, random(3) - 1 do
        state.model['m' .. i], state.optimizer['o' .. i] = targets(i, n), targets(i, 99 + n)
      end
      for _ = 1, 4 do state['s' .. random(9)] = value_of(2) end
      local path = folder .. '/state'
      checkpoint.save(path, state)
      same(state, checkpoint.load(path), 'state ' .. n)
    end
  end)
end)

describe('a training of random batches', function()
  it('is the one written out, step by step', function()
    local kinds = {}
    for seed = 1, 60 do
      local case = drawn(seed)
      local where = 'seed ' .. seed
      local wanted_net, net = made(seed), made(seed)
      local wanted = by_hand(case, wanted_net)
      local o = optim.SGD(net, { lr = 0.1, momentum = case.momentum })
      local said = {}
      local t = ridge.Trainer(net, { optimizer = o, loss = case.loss, accumulate = case.accumulate,
        clip = case.clip, compile = case.compile, log_every = case.log_every,
        schedule = case.schedule and optim.StepLR(o, { every = case.every, factor = 0.5 }) or nil,
        say = function(line) said[#said + 1] = line end })
      t.batch.parts = case.parts
      local test = feed(case.test)
      local history = t:fit(feed(case.list, case.said), { epochs = case.epochs,
        validate = case.validate and test or nil })
      for i, p in ipairs(wanted_net:parameters()) do
        assert.is_true(net:parameters()[i].tensor:allclose(p.tensor, 1e-9, 1e-12),
          where .. ': ' .. p.name)
      end
      assert.are.equal(#wanted.curve, #t.curve, where)
      for i, row in ipairs(t.curve) do
        assert.near(wanted.curve[i], row.loss, 1e-9, where)
        assert.are.equal(i, row.step)
        assert.is_true(row.seconds >= (i > 1 and t.curve[i - 1].seconds or 0))
      end
      for i, row in ipairs(history) do
        assert.near(wanted.history[i], row.loss, 1e-9, where)
        assert.near(wanted.rates[i], row.lr, 1e-12, where)
        assert.same({ i, 0 }, { row.epoch, row.not_finite })
        assert.are.equal(case.validate, row.val_loss ~= nil)
      end
      local last = history[case.epochs]
      if case.validate then
        assert.near(wanted.test, last.val_loss, 1e-9, where)
        assert.are.equal(case.kind == 'labels', last.accuracy ~= nil)
        if last.accuracy then assert.near(wanted.accuracy, last.accuracy, 1e-12, where) end
      end
      local loss, accuracy = t:validate(test)
      assert.near(wanted.test, loss, 1e-9, where)
      if accuracy then assert.near(wanted.accuracy, accuracy, 1e-12, where) end
      -- a line every so many batches, and two behind each epoch
      local lines = {}
      for _, line in ipairs(said) do
        if line:find '  batch %d+' then lines[#lines + 1] = line:match '^(.*  )[%d.]+ s$' end
      end
      assert.same(wanted.lines, lines, where)
      assert.are.equal(#lines + 2 * case.epochs, #said, table.concat(said, '\n'))
      kinds[('%s %s %s'):format(case.kind, case.compile and 'plan' or 'plain',
        case.parts > 1 and 'parts' or 'whole')] = true
    end
    local n = 0
    for _ in pairs(kinds) do n = n + 1 end
    assert.are.equal(8, n) -- every way was gone
  end)
end)
