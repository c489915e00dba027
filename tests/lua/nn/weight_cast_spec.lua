-- SPDX-License-Identifier: MIT
-- Weights under autocast on a simulated device: converted once between two steps, and never old.
local ffi = require 'ffi'
local ridge = require 'ridge'
local ring = require 'ridge.ring'
local C = require 'ridge.ffi.lib'
local nn, optim = ridge.nn, ridge.optim
local simulated = dofile 'tests/lua/simulated.lua'
local counted = dofile 'tests/lua/counted.lua'

local GPU = 'sim:0'

describe('weights under autocast on a device', function()
  if not simulated.open() then
    return it('is nothing here', function() pending 'no nvcc: no simulated device was built' end)
  end

  local modes = C.rg_device_modes_now()
  after_each(function() modes.vendor, modes.deterministic = 1, 0 end)

  local function on(stream, f, ...) return ridge.device.on_stream(GPU, stream, f, ...) end

  -- How many of these weights were converted while f ran, and how often each: by their sizes, which
  -- nothing else has but their gradients in the backward pass.
  local function casts(list, f, ...)
    local wanted, n, each = {}, 0, {}
    for i, w in ipairs(list) do wanted[w.count * 6], each[i] = i, 0 end -- bytes of both
    local reader = ring.open('op', 4096)
    f(...)
    for event in reader:each() do
      local at = event.name == 'cast' and wanted[event.bytes]
      if at then n, each[at] = n + 1, each[at] + 1 end
    end
    reader:close()
    return n, each
  end

  local function product(opts)
    local w = ridge.randn(13, 17):to(GPU)
    if not (opts and opts.plain) then w:set_param() end
    return w, ridge.randn(5, 13):to(GPU):to 'bf16'
  end

  local function times(x, w, kind) return ridge.autocast(kind or 'bf16', x.matmul, x, w) end

  it('are converted once, however often they are used', function()
    local w, x = product()
    assert.equal(1, casts({ w }, times, x, w))
    local y = times(x, w)
    assert.equal(0, casts({ w }, function()
      for _ = 1, 3 do assert.is_true(times(x, w):equal(y)) end
      assert.is_true(times(w:t(), x:t()):t():allclose(y, 0.01, 0.01)) -- its transpose is the same
    end))
    assert.equal(1, casts({ w }, times, x:to 'f16', w, 'f16')) -- another type is another copy
    assert.equal(0, casts({ w }, times, x, w))
    assert.is_true(y:equal(x:matmul(w:to 'bf16')))
  end)

  it('are converted again when they were written to, in any way', function()
    local w, x = product()
    local other = ridge.randn(13, 17)
    for i, write in ipairs {
      function() w:fill_(0.5) end, function() w[{ 2, 3 }] = 7 end,
      function() w:copy_(other) end, function() w:t():mul_(2) end,
      function() w:narrow(1, 1, 2):fill_(1) end,
      function() on(3, w.add_, w, 1) end,
    } do
      times(x, w)
      write()
      assert.equal(1, casts({ w }, times, x, w), i)
      assert.is_true(times(x, w):equal(x:matmul(w:to 'bf16')), i)
    end
  end)

  it('are no copies where nothing is gained', function()
    local w, x = product { plain = true } -- nobody said that it is a weight
    assert.equal(0, casts({ w }, times, x, w))
    local table_of = ridge.randn(200, 17):to(GPU):set_param()
    local part = table_of:narrow(1, 20, 13)
    assert.equal(0, casts({ table_of, part }, times, x, part))
    assert.is_true(times(x, part):equal(x:matmul(part:to 'bf16')))
    local wide = ridge.randn(5, 100):to(GPU):to 'bf16' -- from half of the whole on it is gained
    local less, half = table_of:narrow(1, 20, 99), table_of:narrow(1, 20, 100)
    assert.equal(0, casts({ table_of }, times, wide:narrow(2, 1, 99), less))
    assert.equal(1, casts({ table_of }, times, wide, half))
    local u = product()
    assert.equal(0, casts({ u }, x.matmul, x:to 'f32', u))
  end)

  it('are found by every view, at its own place', function()
    local w, x = product()
    local rows, columns, all = w:narrow(1, 4, 10), w:narrow(2, 3, 12), x:matmul(w:to 'bf16')
    assert.equal(1, casts({ w }, function()
      assert.is_true(times(x:narrow(2, 4, 10), rows):equal(
        x:narrow(2, 4, 10):matmul(rows:to 'bf16')))
      assert.is_true(times(x, columns):equal(x:matmul(columns:to 'bf16')))
      assert.is_true(times(x, w):equal(all))
    end))
  end)

  it('are converted in a plan as often as they change there', function()
    local w, x = product()
    local function f()
      local before = times(x, w)
      local same = times(x, w)
      w:add_(0.25)
      return before, same, times(x, w)
    end
    local plan
    assert.equal(2, casts({ w }, function() plan = ridge.capture(f) end))
    for i = 1, 4 do
      local now = w:to 'bf16'
      local a, b, c = plan:run()
      assert.is_true(a:equal(x:matmul(now)) and b:equal(a), i)
      assert.is_true(c:equal(x:matmul(w:to 'bf16')), i)
    end
    assert.is_true(plan:facts().device_graph)
  end)

  it('are found from any stream, and made behind whoever wrote them', function()
    for _, order in ipairs { 'fwd', 'rev', 'rand:1', 'rand:2' } do
      ffi.C.setenv('RG_SIM_ORDER', order, 1)
      local w, x = product()
      for i = 1, 6 do
        on(i % 3, w.fill_, w, i)
        local results = {}
        for k = 1, 4 do results[k] = on((i + k) % 5, times, x, w) end
        on((i + 1) % 3, w.fill_, w, -i) -- while they are still read
        local wanted = x:to('cpu'):matmul(ridge.full(i, 13, 17):to 'bf16')
        for k, y in ipairs(results) do
          assert.is_true(y:to('cpu'):allclose(wanted, 0.01, 0.05), ('%s %d %d'):format(order, i, k))
        end
      end
    end
    ffi.C.setenv('RG_SIM_ORDER', 'fwd', 1)
  end)

  -- -- Networks ----------------------------------------------------------------------------------

  local function network()
    local Net = nn.class 'Net'
    function Net:init()
      self.conv = self:child('conv', nn.Conv2d(2, 5, 3, { padding = 1, seed = 1 }))
      self.one = self:child('one', nn.Linear(90, 22, { seed = 2, activation = 'gelu' }))
      self.low = self:child('low', nn.LowRankLinear(22, 21, { rank = 3, seed = 3 }))
      self.dense = self:child('dense', nn.SKLinear(21, 20, { num_terms = 1, low_rank = 2, seed = 4,
        form = 'stored', warn = false }))
      self.bits = self:child('bits', nn.SKLinear(20, 19, { num_terms = 1, low_rank = 3, seed = 5,
        form = 'bits', warn = false }))
      self.seed = self:child('seed', nn.SKLinear(19, 18, { num_terms = 1, low_rank = 2, seed = 6,
        form = 'seed', warn = false }))
      self.again = self:child('again', nn.Linear(18, 18, { seed = 7 }))
      self.out = self:child('out', nn.Linear(18, 4, { seed = 8 }))
    end
    function Net:forward(x)
      x = self.conv(x):reshape(6, 90)
      x = self.seed(self.bits(self.dense(self.low(self.one(x)))))
      return self.out(self.again(self.again(x)))
    end
    return Net():to(GPU):train()
  end

  -- What products read: {count = elements}.  S1 and U2 of stored signs lie in one matrix, as do U1
  -- and S2.
  local function weights(net)
    local list = { { count = 21 * 4 }, { count = 4 * 20 } }
    for _, p in ipairs(net:parameters()) do
      local w = p.tensor
      if #w:size() > 1 and w.dtype == 'f32' and not p.name:find '^dense' then
        list[#list + 1] = { count = w.count, uses = p.name:find '^again' and 2 }
      end
    end
    assert.equal(12, #list)
    return list
  end

  local IMAGES = ridge.randn(6, 2, 3, 6, { generator = ridge.generator(2) }):to(GPU)
  local LABELS = ridge.tensor({ 0, 1, 2, 3, 0, 1 }, { dtype = 'i64' }):to(GPU)

  local function training(kind, opts)
    local net = network()
    if opts and opts.plain then
      for _, p in ipairs(net:parameters()) do p.tensor:set_param(false) end
    end
    local o = optim.AdamW(net, { lr = 0.01 })
    local scaler = kind == 'f16' and optim.GradScaler { scale = 64 }
    local function there()
      o:zero_grad { set = true }
      local run = opts and opts.recompute and function(x) return ridge.recompute(net, x) end or net
      return nn.cross_entropy(ridge.autocast(kind, run, IMAGES), LABELS)
    end
    local function back(loss)
      (scaler and scaler:scale(loss) or loss):backward()
    end
    local function update()
      if scaler then return scaler:step(o, { clip = 1 }) end
      o:step { scale = o:clip(1) }
    end
    return net, function()
      local loss = there()
      back(loss)
      update()
      return loss
    end, there, back, update
  end

  for _, kind in ipairs { 'bf16', 'f16' } do
    for _, how in ipairs { 'plain', 'recomputed' } do
      it(('are converted once a step, there and back: %s, %s'):format(kind, how), function()
        local net, _, there, back, update = training(kind, { recompute = how == 'recomputed' })
        local list = weights(net)
        for _ = 1, 3 do
          local loss
          assert.equal(#list, casts(list, function() loss = there() end))
          local _, each = casts(list, back, loss)
          for i, w in ipairs(list) do -- at most the gradients, in the lower-precision type
            assert.is_true(each[i] <= (w.uses or 1), ('%d: %d'):format(w.count, each[i]))
          end
          assert.equal(0, casts(list, update))
        end
        net:eval()
        ridge.no_grad(function()
          assert.equal(#list, casts(list, ridge.autocast, kind, net, IMAGES))
          assert.equal(0, casts(list, ridge.autocast, kind, net, IMAGES))
        end)
      end)
    end

    for _, of in ipairs { 'a captured step', "a step's graph" } do
      it(('are in %s what they are in its calls: %s'):format(of, kind), function()
        local one, step = training(kind)
        local list = weights(one)
        for _ = 1, 8 do step() end
        local usual = casts(list, step)
        local two, again = training(kind)
        again()
        ridge.no_grad(ridge.autocast, kind, two, IMAGES) -- kept, and none of the plan's
        local plan
        assert.equal(usual, casts(weights(two), function()
          plan = of == 'a captured step' and ridge.capture(again) or ridge.graph(again):plan()
        end))
        for i = 3, 9 do
          plan:run()
          if i == 6 then -- somebody else's, between two replays
            ridge.no_grad(ridge.autocast, kind, two, IMAGES * 3)
          end
        end
        assert.is_true(plan:facts().device_graph, plan:facts().why)
        for i, p in ipairs(one:parameters()) do
          assert.is_true(p.tensor:equal(two:parameters()[i].tensor), p.name)
        end
        local y = ridge.no_grad(ridge.autocast, kind, one, IMAGES)
        assert.is_true(ridge.no_grad(ridge.autocast, kind, two, IMAGES):equal(y))
        plan:release()
        assert.is_true(ridge.no_grad(ridge.autocast, kind, two, IMAGES):equal(y))
      end)
    end

    it('give the numbers that they gave when each use converted them: ' .. kind, function()
      for _, vendor in ipairs { 1, 0 } do
        modes.vendor = vendor
        local one, step = training(kind)
        local two, each = training(kind, { plain = true })
        for _ = 1, 4 do
          local a, b = step():item(), each():item()
          assert.near(a, b, 0.02)
        end
        for i, p in ipairs(one:parameters()) do
          local other = two:parameters()[i].tensor
          assert.is_true(p.tensor:allclose(other, 0.05, 0.02), vendor .. p.name)
        end
      end
    end)
  end

  it('have gradients of gradients', function()
    local function second(opts)
      ridge.seed(4)
      local w, x = product(opts)
      w:requires_grad_()
      x = x:to('f32'):requires_grad_()
      local y = ridge.autocast('f16', function() return x:matmul(w):square():sum() end)
      local dx = ridge.grad(y, x, { create = true })
      return (ridge.grad(dx:square():sum(), w))
    end
    local plain = second { plain = true }
    assert.is_true(plain:abs():max():item() > 0)
    assert.is_true(second():allclose(plain, 1e-2, 1e-2))
  end)

  it('let sketched layers go by the kernel that wants them in the type of the batch', function()
    local x = ridge.randn(32, 64):to(GPU):to 'bf16'
    for _, form in ipairs { 'bits', 'seed' } do
      local net = nn.SKLinear(64, 48, { num_terms = 2, low_rank = 16, seed = 1, form = form,
        warn = false }):to(GPU):eval()
      local reader = ring.open('op', 64)
      local y = ridge.no_grad(ridge.autocast, 'bf16', net, x)
      local path
      for event in reader:each() do
        if event.name:find '^sketched' then path = event.path end
      end
      reader:close()
      assert.equal('signs', path, form)
      assert.is_true(y:to('cpu'):to('f32'):allclose(net:to('cpu')(x:to('cpu'):to 'f32'), 0.1, 0.1))
    end
  end)

  -- -- Memory ------------------------------------------------------------------------------------

  local function live(tag)
    for _ = 1, 4 do ridge.memory.trim(GPU) end
    local stats = ridge.memory.stats(GPU)
    return tag and (stats.tags[tag] or { live = 0 }).live or stats.live
  end

  it('have their copies counted with them, and let go with them', function()
    local before = live()
    local w = ridge.memory.tag('of weights', function() return ridge.randn(64, 128):to(GPU) end)
    w:set_param()
    local x = ridge.randn(2, 64):to(GPU):to 'bf16'
    local alone = live 'of weights'
    ridge.memory.tag('of others', function()
      for i = 1, 20 do
        w:fill_(i)
        times(x, w):release()
        times(x, w:t():t()):release()
      end
    end)
    assert.equal(alone + 64 * 128 * 2, live 'of weights')
    assert.equal(0, live 'of others')
    w:release()
    x:release()
    assert.equal(0, live 'of weights')
    assert.equal(before, live())
  end)

  it('leave nothing behind in a scope, nor in captures that end or fail', function()
    local net, step = training 'bf16'
    step()
    step()
    local list = weights(net)
    ridge.scope(function()
      step()
      local before = ridge.memory.stats(GPU).live
      for _ = 1, 5 do ridge.scope(function() step() end) end
      assert.equal(before, ridge.memory.stats(GPU).live)
    end)
    local before = live()
    for i = 1, 3 do
      local ok, plan = pcall(ridge.capture, function()
        step()
        if i == 2 then error 'on purpose' end
      end)
      assert.equal(i ~= 2, ok)
      if ok then
        plan:run(2)
        plan:release()
      end
    end
    local kept = 0 -- the step behind the last use made the copies old; who asks next lets them go
    for _, w in ipairs(list) do kept = kept + w.count * 2 end
    assert.is_true(live() <= before + kept, live() - before)
    ridge.no_grad(ridge.scope, function() ridge.autocast('bf16', net, IMAGES) end)
    assert.equal(before, live())
  end)

  it('do without their copies where there is no memory', function()
    local w = ridge.randn(512, 512):to(GPU):set_param()
    local x = ridge.randn(2, 512):to(GPU):to 'bf16'
    modes.vendor = 0
    local wanted = x:matmul(w:to 'bf16'):to 'cpu'
    ridge.memory.trim(GPU)
    ridge.memory.set_limit(live() + 2 ^ 17, GPU)
    local ok, y = pcall(times, x, w)
    ridge.memory.set_limit(0, GPU)
    assert.is_true(ok, tostring(y))
    assert.is_true(y:to('cpu'):allclose(wanted, 0.02, 0.1))
    assert.equal(1, casts({ w }, times, x, w)) -- as soon as there is some
  end)

  it('take fewer launches than a conversion for each use', function()
    local _, step = training 'bf16'
    local _, each = training('bf16', { plain = true })
    for _ = 1, 3 do
      step()
      each()
    end
    local few, many = counted.during(step).launches, counted.during(each).launches
    assert.is_true(few < many, few .. ' ' .. many)
    io.write(('# launches of a step: %d, and %d where each use converts\n'):format(few, many))
  end)
end)
