-- SPDX-License-Identifier: MIT
-- ridge.capture leaves out what nobody needs and computes once what is the same, and nothing else;
-- what it returns, writes and leaves held is where it was.
local ridge = require 'ridge'
local bits = require 'tests.lua.bits'
local folders = dofile 'tests/lua/store/folder.lua'
local steps = require('ridge.plan').steps
local nn, optim = ridge.nn, ridge.optim

local function ops(plan) return table.concat(plan:facts().steps, ' ') end

describe('a capture', function()
  local x
  before_each(function()
    ridge.seed(1)
    x = ridge.randn(3, 4)
  end)

  it('has no step for what nobody needs', function()
    local plan = ridge.capture(function()
      local _ = x * 3
      return x * 4
    end)
    assert.equal('mul', ops(plan))
    assert.equal(1, plan:facts().n_steps)
    assert.is_true(plan():equal(x * 4))
    assert.same({ n_calls = 2, left_out = 1, flops = 24, bytes = 2 * 96 }, plan:facts().recorded)
    assert.equal(12, plan:facts().flops)
    assert.same({ 'REDUCED' }, plan:facts().notes)
    assert.matches('REDUCED$', tostring(plan))
  end)

  it('computes once what is the same, and what x * 1 is not at all', function()
    local plan = ridge.capture(function() return (x * 1):sum(2) + x:sum(2) end)
    assert.equal('sum add', ops(plan))
    assert.is_true(plan():equal(x:sum(2) + x:sum(2)))
  end)

  it('says REDUCED only where more than a hundredth of the operations went', function()
    local w = ridge.randn(4, 64)
    local plan = ridge.capture(function() return x:matmul(w) * 1 end) -- 192 of 1728
    assert.same({ 'REDUCED' }, plan:facts().notes)
    local wide = ridge.randn(4, 4000)
    plan = ridge.capture(function()
      local _ = x * 3 -- 12 of 96,012
      return x:matmul(wide)
    end)
    assert.equal('matmul', ops(plan))
    assert.same({}, plan:facts().notes)
    assert.equal(2, plan:facts().recorded.n_calls)
  end)

  it('is as it was recorded where every call is needed', function()
    local function f() return x:cumsum(2):tanh():sum() end
    local plan = ridge.capture(f)
    assert.equal(ops(steps(f)), ops(plan))
    assert.same({}, plan:facts().notes)
    assert.equal(0, plan:facts().recorded.left_out)
    assert.is_true(plan.graph == plan.emitted)
    assert.equal(3, #plan.graph:nodes())
  end)

  it('has its graph, as recorded and as it runs', function()
    local plan = ridge.capture(function() return x:sum() + x:sum() end)
    assert.equal(3, #plan.graph:nodes())
    assert.equal(2, #plan.emitted:nodes())
  end)

  it('joins elementwise functions, and has left nothing out for that', function()
    local function f() return ((x * 2 + 1):gelu()) end
    local plan = ridge.capture(f)
    assert.equal('fused', ops(plan))
    assert.same(bits.all(f()), bits.all(plan()))
    assert.same({ n_calls = 3, left_out = 0, flops = 12 * 16, bytes = 6 * 48 },
      plan:facts().recorded)
    assert.equal(12 * 16, plan:facts().flops)
    assert.equal(2 * 48, plan:facts().bytes)
    assert.same({}, plan:facts().notes)
    assert.equal(3, #plan.graph:nodes())
    assert.equal(1, #plan.emitted:nodes())
    plan = ridge.capture(function()
      local _ = x:exp()
      return f()
    end)
    assert.equal(1, plan:facts().recorded.left_out)
    assert.equal('fused gt', ops(ridge.capture(function() return f():gt(0) end)))
    assert.equal('mul add gelu', ops(steps(f))) -- no pass at all
  end)

  it('returns the very tensors that were returned, in the tables they were in', function()
    local made
    local plan = ridge.capture(function()
      local _ = x:exp()
      made = { first = x + 1, { x * 2 } }
      return made, 'text', nil
    end)
    local n = select('#', plan())
    local got, text = plan()
    assert.equal(3, n)
    assert.equal(made, got)
    assert.equal('text', text)
    assert.is_true(rawequal(made.first, got.first))
    x:fill_(5)
    plan()
    assert.equal(6, made.first:view(12)[1]:item())
    assert.equal(10, made[1][1]:view(12)[1]:item())
  end)

  it('writes what is held outside, also where it is not returned', function()
    local held
    local plan = ridge.capture(function()
      local _ = x:exp()
      held = x:exp():transpose(1, 2)
      return x + 1
    end)
    assert.equal('fused', ops(plan))
    x:fill_(0)
    held:fill_(9)
    plan()
    assert.is_true(held:equal(ridge.ones(4, 3)))
  end)

  it('gives two results that are one value memory of their own', function()
    local plan = ridge.capture(function() return x:exp(), x:exp() end)
    local a, b = plan()
    a:fill_(0)
    assert.is_true(b:equal(x:exp()))
    a, b = plan()
    assert.is_true(a:equal(b))
    assert.is_false(a:same_storage(b))
  end)

  it('keeps what was written to, and draws that nobody reads', function()
    local count = ridge.zeros(1)
    local plan = ridge.capture(function()
      x:dropout(0.5):release()
      count:add_(1)
    end)
    assert.equal('dropout add', ops(plan))
    local drawn = ridge.rand(2)
    ridge.seed(7)
    plan:run(3)
    local behind = ridge.rand(2)
    ridge.seed(7)
    for _ = 1, 3 do x:dropout(0.5) end
    assert.is_true(behind:equal(ridge.rand(2)))
    assert.is_false(behind:equal(drawn))
    assert.equal(4, count:item())
  end)

  it('of nothing that is seen outside is an error at its line', function()
    local ok, e = pcall(ridge.capture, function() local _ = x:exp() end)
    assert.is_false(ok)
    assert.matches('capture_passes_spec.lua:%d+: capture: it computes nothing that is seen outside',
      tostring(e))
    assert.equal('EARG', e.code)
    assert.is_true(ridge.capture(function() return x:exp() end)():equal(x:exp())) -- none is open
  end)

  it('of what was released is an error that says so', function()
    for _, way in ipairs { 'capture', 'graph' } do
      local ok, e = pcall(ridge[way], function()
        local y = x + 1
        y:release()
        return { x * 2, y }
      end)
      assert.is_false(ok)
      assert.matches('capture_passes_spec.lua:%d+: ' .. way .. ': the tensor .*was released',
        tostring(e))
      assert.equal('ERELEASED', e.code)
    end
  end)

  it('keeps no memory but its results and buffers', function()
    local function live()
      require('ridge.ffi.ref').collect()
      return ridge.memory.stats().live
    end
    local large = ridge.randn(1000, 100)
    local before = live()
    local plan = ridge.capture(function()
      local _ = large:exp()
      return (large:exp() * 2):sum()
    end)
    assert.is_true(live() - before < 2 * large.bytes)
    plan:release()
    assert.equal(before, live())
  end)

  it('of a backward pass begins with one fill: the gradient of the loss', function()
    local w = ridge.randn(3, 4):requires_grad_()
    local function step()
      w:zero_grad()
      local loss = (w * w):sum()
      loss:backward()
      return loss
    end
    assert.equal('mul sum fill', ops(ridge.capture(step)):match '^mul sum fill')
    assert.is_nil(ops(ridge.capture(step)):find('fill fill', 1, true))
    local v = ridge.randn(3, 4):requires_grad_() -- a part of what has more: zeros lie around it
    local loss = (v * 1):sum(2)
    loss[2]:backward()
    assert.same({ 0, 0, 0, 0 }, v.grad[1]:tolist())
    assert.same({ 1, 1, 1, 1 }, v.grad[2]:tolist())
    assert.same({ 0, 0, 0, 0 }, v.grad[3]:tolist())
  end)

  it('trains with the bits of its calls, a thousand times', function()
    local function make(optimizer)
      local net = nn.Sequential(nn.Linear(6, 8, { seed = 1 }), nn.GELU(), nn.Dropout(0.2),
        nn.BatchNorm(8), nn.Linear(8, 3, { seed = 2 })):train()
      local o = optim[optimizer](net, { lr = 0.01 })
      local input = ridge.randn(5, 6, { generator = ridge.generator(3) })
      local wanted = ridge.randn(5, 3, { generator = ridge.generator(4) })
      return net, function()
        o:zero_grad()
        local loss = nn.mse_loss(net(input), wanted)
        loss:backward()
        o:step { scale = o:clip(1) }
        return loss
      end
    end
    for _, optimizer in ipairs { 'SGD', 'AdamW' } do
      local one, call = make(optimizer)
      ridge.seed(9)
      local loss
      for _ = 1, 1001 do loss = call() end
      local two, step = make(optimizer)
      ridge.seed(9)
      local plan = ridge.capture(step)
      plan:run(1000)
      assert.same(bits.all(loss, one:state()), bits.all(plan.results[1], two:state()), optimizer)
    end
  end)
end)

describe('the flag REDUCED', function()
  it('stands at a point whose plan lost operations, and at none else', function()
    local x = ridge.randn(64, 64)
    local function grade(f)
      return ridge.measure.point(ridge.capture(f), { level = 'quick', quiet_ns = 0 })
    end
    local function has(point)
      for _, flag in ipairs(point.flags) do if flag == 'REDUCED' then return true end end
      return false
    end
    assert.is_true(has(grade(function() return x:exp() + x:exp() end)))
    assert.is_false(has(grade(function() return x:exp() + x end)))
  end)

  it('is kept with what was recorded in the rows of a sweep', function()
    local x = ridge.randn(64, 64)
    local sweep = ridge.sweep 'reduced' {
      protocol = { level = 'quick', quiet_ns = 0 },
      space = { twice = { 1, 2 } },
      measure = function(p, _, m)
        m:time('fwd', ridge.capture(function()
          local y
          for _ = 1, p.twice do y = x:exp() end
          return y
        end))
      end,
    }
    local folder = folders.new()
    finally(function() folders.remove(folder) end)
    local db = folder .. '/r.db'
    sweep:run { db = db, calibrate = false, progress = false }
    local rows = sweep:results { db = db }
    assert.equal(2, #rows)
    for _, row in ipairs(rows) do
      assert.equal(row.twice == 2, (row.fwd_flags or ''):find 'REDUCED' ~= nil)
      assert.equal(row.twice == 2 and 1 or nil, row.fwd_left_out)
      assert.equal(row.twice == 2 and 2 * 40960 or nil, row.fwd_recorded_flops)
      assert.equal(40960, row.fwd_flops)
    end
  end)

  it('keeps its graph where that is little beside it', function()
    local function chain(n, count)
      return ridge.capture(function()
        local y = ridge.zeros(count):narrow(1, 1, 4)
        for _ = 1, n do y = y:softmax() end
        return y
      end)
    end
    local small, long = chain(100, 4), chain(2000, 4)
    assert.same({ 101, 2001 }, { small:facts().n_steps, long:facts().n_steps })
    assert.equal(102, #small.graph:nodes())
    assert.is_nil(long.graph)
    assert.is_nil(long.emitted)
    assert.equal(2002, #chain(2000, 2 ^ 25).graph:nodes()) -- beside 128 MB of buffers
  end)
end)
