-- SPDX-License-Identifier: MIT
-- Random numbers in what is computed again (ridge.recompute), in plans: each replay draws new ones,
-- and both passes of a part have the same.
local ridge = require 'ridge'
local bits = require 'tests.lua.bits'
local nn, optim = ridge.nn, ridge.optim

local EXACT = {}
for _, pass in ipairs(ridge.graph.passes()) do
  if pass.exactness == 'exact' and pass.does then EXACT[#EXACT + 1] = pass.name end
end

-- Ways to make a plan.
local WAYS = {
  captured = ridge.capture,
  ['of a graph'] = function(f) return ridge.graph(f):check():plan() end,
  ['behind the exact passes'] = function(f)
    return ridge.graph(f):check():optimize(EXACT):check():plan()
  end,
}

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return tostring(e)
end

local function block(i)
  return nn.Sequential(nn.Linear(16, 64, { seed = i }), nn.GELU(), nn.Dropout(0.3),
    nn.Linear(64, 16, { seed = 10 + i, dropout = 0.2 }), nn.Tanh())
end

-- How much of three blocks is computed again.
local PARTS = {
  none = function() end,
  blocks = function(net) for i = 1, 3 do net[i]:recompute(1) end end,
  modules = function(net) for i = 1, 3 do net[i][3]:recompute() end end,
  ['two segments'] = function(net) net:recompute(2) end,
  ['one segment'] = function(net) net:recompute(1) end,
  ['parts in parts'] = function(net)
    net:recompute(2)
    for i = 1, 3 do net[i]:recompute(2) end
    net[2][3]:recompute()
  end,
}

-- A net, a step of its training, and the bits that a step leaves.
local function training(parts, opts)
  opts = opts or {}
  local net = nn.Sequential(block(1), block(2), block(3)):train()
  PARTS[parts](net)
  local optimizer = optim.AdamW(net, { lr = 0.01 })
  local x = ridge.randn(32, 16, { generator = ridge.generator(3) })
  local function step()
    optimizer:zero_grad()
    local function forward() return net(opts.twice and net(x) or x):square():mean() end
    local loss = opts.autocast and ridge.autocast(opts.autocast, forward) or forward()
    loss:backward()
    optimizer:step()
    return loss
  end
  return step, function()
    local list = { optimizer:state(), net:state() }
    for _, p in ipairs(net:parameters()) do list[#list + 1] = p.tensor.grad end
    return bits.all(list, ridge.rand(2)) -- and where the stream stands
  end
end

-- What five steps give and leave, behind one that is recorded.
local function five(parts, make, opts)
  local step, left = training(parts, opts)
  ridge.seed(5)
  local plan = make and make(step) or not make and step() and nil
  local losses = {}
  for i = 1, 5 do
    ridge.seed(20 + i)
    losses[i] = bits.of(plan and plan:run() or step())
  end
  return losses, left(), plan
end

describe('random numbers of what is computed again', function()
  for _, opts in ipairs { {}, { autocast = 'bf16' }, { twice = true } } do
    local what = opts.autocast and ', under autocast' or opts.twice and ', all of it twice' or ''
    for parts in pairs(what == '' and PARTS or { blocks = true, ['parts in parts'] = true }) do
      it(('are those of the first run in each replay: %s%s'):format(parts, what), function()
        local wanted, left = five('none', nil, opts)
        for i = 2, 5 do assert.not_equal(wanted[1], wanted[i]) end
        local eager, leaves = five(parts, nil, opts)
        assert.same(wanted, eager)
        assert.is_true(table.concat(left) == table.concat(leaves))
        for way, make in pairs(WAYS) do
          local losses, after = five(parts, make, opts)
          assert.same(wanted, losses, way)
          assert.is_true(table.concat(left) == table.concat(after), way)
        end
      end)
    end
  end

  it('go on from replay to replay, and each is drawn once', function()
    local step = training 'blocks'
    local plan = ridge.capture(step)
    ridge.seed(1)
    local a, before = bits.of(plan:run()), ridge.seed()
    local stream = require('ridge.random').default()
    assert.equal(3 * 32 * (64 + 16), stream:offset())
    local b = bits.of(plan:run())
    assert.equal(2 * 3 * 32 * (64 + 16), stream:offset())
    assert.not_equal(a, b)
    assert.equal(before, ridge.seed())
  end)

  it('cost no memory that computing again saves', function()
    for _, make in pairs(WAYS) do
      local function bytes(parts)
        return make((training(parts))):facts().buffer_bytes
      end
      local plain = bytes 'none'
      assert.is_true(bytes 'blocks' < 0.6 * plain)
      assert.is_true(bytes 'two segments' < 0.9 * plain)
    end
  end)

  it('are the same ones after passes, whoever reads them', function()
    local function draws(graph)
      local list = {}
      for _, node in ipairs(graph:nodes()) do
        if node.op:find 'dropout$' then list[#list + 1] = node end
      end
      return list
    end
    local g = ridge.graph((training 'blocks'))
    for _, graph in ipairs { g, g:copy(), g:optimize(EXACT),
      g:optimize { 'common_subexpression_elimination' } } do
      local list = draws(graph:check())
      assert.equal(12, #list)
      for i = 1, 6 do assert.same({ false, nil }, { list[i].recomputed, list[i].repeats }) end
      -- the last block is computed again first
      for i, first in ipairs { 5, 6, 3, 4, 1, 2 } do
        assert.is_true(list[6 + i].recomputed)
        assert.equal(list[first], list[6 + i].repeats)
      end
      assert.matches('recomputed, draws as %%' .. list[5].outputs[1].id, tostring(graph))
    end
    assert.matches('draws', failure(g.remove, g, draws(g)[8]))
    local nobody = ridge.graph(function(x) -- nobody reads the second run
      local y = ridge.recompute(function(v) return v + 1, v:dropout(0.5) end, x)
      y:sum():backward()
      return y
    end, ridge.ones(3):requires_grad_())
    assert.equal(2, #draws(nobody:optimize(EXACT):check()))
  end)

  it('are others where a node repeats another draw', function()
    local x = ridge.ones(3):requires_grad_()
    local function half(v) return v:dropout(0.5):sin() end
    local g = ridge.graph(function()
      x:zero_grad()
      local y = ridge.recompute(half, x) + ridge.recompute(half, x)
      y:sum():backward()
      return x.grad
    end)
    local text = g:json()
    local a, b = text:match '"repeats": (%d+).*"repeats": (%d+)'
    local swapped = ridge.graph.parse((text:gsub('("repeats": )(%d+)',
      function(head, n) return head .. (n == a and b or a) end)))
    assert.not_equal(a, b)
    assert.is_false(g:same(swapped))
    assert.is_true(swapped:same(swapped:copy()))
  end)

  it('are kept by files', function()
    local step = training 'parts in parts'
    local g = ridge.graph(step)
    local read = ridge.graph.parse(g:json())
    assert.is_true(read:same(g:copy()) and g:same(read))
    local text = g:json()
    assert.is_true(select(2, text:gsub('"repeats"', '')) >= 6)
    assert.is_false(g:same(ridge.graph.parse((ridge.graph((training 'none')):json()))))
    for from, to in pairs {
      ['"repeats": %d+'] = '"repeats": 99999',
      ['"recomputed": 1, "repeats"'] = '"repeats"',
      ['"recomputed": 1, "repeats": %d+'] = '"recomputed": 1',
    } do
      local damaged, n = text:gsub(from, to, 1)
      assert.equal(1, n, from)
      assert.matches('repeats', failure(ridge.graph.parse, damaged), from)
    end
  end)
end)

-- -- The same mask in both passes, exactly -----------------------------------------------------

-- y = mask x w over whole numbers: the gradient of w is y summed by columns, over w, where the mask
-- is one.  Gives the two; f returns them as a graph's outputs are listed.
local function masked(draw)
  local w = ridge.full(2, 64):requires_grad_()
  local function f(x)
    w:zero_grad()
    local y = ridge.recompute(function(v) return draw(v * w) end, x)
    y:sum():backward()
    return w.grad, y
  end
  return f, w
end

local DRAWS = {
  dropout = function(x) return x:dropout(0.5) end,
  dropout_ = function(x) return (x * 1):dropout_(0.5) end,
  rand = function(x) return x * ridge.rand(10, 64):gt(0.5):to 'f32' * 2 end,
  randn = function(x) return x * ridge.randn(10, 64):gt(0):to 'f32' * 2 end,
  randint = function(x) return x * ridge.randint(0, 3, 10, 64):to 'f32' end,
  ['normal_'] = function(x) return x * ridge.zeros(64):normal_():gt(0):to 'f32' * 2 end,
  several = function(x)
    return x:dropout(0.5):dropout(0) * ridge.rand(64):gt(0.5):to 'f32':dropout(0.5)
  end,
}

describe('the mask of a part', function()
  local x

  before_each(function()
    ridge.seed(2)
    x = ridge.arange(1, 640):reshape(10, 64)
  end)

  -- Five replays: their bits.
  local function check(plan, input)
    local seen = {}
    for i = 1, 5 do
      local grad, y = plan:run(input and { input = input })
      assert.is_true((y:detach():sum(1) / 2):equal(grad))
      seen[i] = bits.of(grad) .. bits.of(y)
    end
    for i = 2, 5 do assert.not_equal(seen[1], seen[i], 'another one each time') end
    return seen
  end

  for name, draw in pairs(DRAWS) do
    it('is one in both passes of a replay: ' .. name, function()
      for _, make in pairs(WAYS) do
        local f = masked(draw)
        check(make(function() return f(x) end))
      end
    end)
  end

  it('is so in clones, which draw from streams of their own', function()
    local plan = ridge.graph(masked(DRAWS.several), x):plan()
    local one, two = plan:clone(), plan:clone()
    local seen = { check(plan), false, false, false }
    ridge.seed(3)
    seen[2], seen[3] = check(one, x), check(two)
    seen[4] = check(two:clone())
    for i = 2, 4 do
      for k = 1, i - 1 do assert.not_equal(seen[k][1], seen[i][1]) end
    end
    assert.equal(0, require('ridge.random').default():offset())
  end)

  it('is so in graphs out of files', function()
    local f, w = masked(DRAWS.several)
    local g = ridge.graph(f, x)
    ridge.seed(3)
    local want = check(g:plan())
    local read = ridge.graph.parse(g:json())
    for i, value in ipairs(read:inputs()) do
      if #value.shape == 1 and value.shape[1] == 64 then
        read = read:plan { tensors = { [i] = w, input = x } }
        break
      end
    end
    ridge.seed(3)
    assert.same(want, check(read))
  end)

  it('is so whoever watches', function()
    local f = masked(DRAWS.several)
    local plan = ridge.capture(f, x)
    ridge.seed(3)
    local want = check(plan)
    ridge.seed(3)
    local got
    ridge.profile(function() got = check(plan) end)
    assert.same(want, got)
    ridge.seed(3)
    ridge.timeline(function() got = check(plan) end)
    assert.same(want, got)
  end)
end)

-- -- Streams ----------------------------------------------------------------------------------

describe('a stream of its own', function()
  -- Gradients of three steps, and where the stream is then; plan: captured behind the first one.
  local function run(recomputes, planned, made)
    local g = ridge.generator(7)
    local x = ridge.arange(1, 12):requires_grad_()
    local function part(v)
      local own = made and ridge.generator(5) or g
      local y = v * v:detach():dropout(0.5, own)
      return ridge.recompute(function(u) return u * ridge.rand(12, { generator = g }) end, y):exp()
    end
    local function step()
      x:zero_grad()
      local y = recomputes and ridge.recompute(part, x) or part(x)
      y:sum():backward()
      return x.grad
    end
    local plan = planned and ridge.capture(step)
    local out = { not plan and bits.of(step()) or nil }
    for i = 2, 4 do out[i] = bits.of(plan and plan:run() or step()) end
    out[1] = true
    return out, g:offset()
  end

  it('is set back too, call by call', function()
    local want, stands = run(false)
    local got, at = run(true)
    assert.same(want, got)
    assert.same({ stands, 4 * 24 }, { at, stands })
  end)

  it('gives both passes the same numbers in a replay', function()
    local want, stands = run(false)
    for _, recomputes in ipairs { false, true } do
      local got, at = run(recomputes, true)
      assert.same(want, got)
      assert.equal(stands, at)
    end
  end)

  it('is set back for a part of which only an inner part draws from it', function()
    local function bits_of(recomputes, planned, own)
      local g, x = ridge.generator(7), ridge.arange(1, 12):requires_grad_()
      local function inner(u) return u * ridge.rand(12, { generator = g }) end
      local function outer(v)
        if not own then return ridge.recompute(inner, v * v):sin() end
        return v * ridge.enable_grad(function() -- the inner one is a part in the first run too
          return ridge.recompute(inner, v:detach():clone():requires_grad_()):detach()
        end)
      end
      local function step()
        x:zero_grad()
        local y = recomputes and ridge.recompute(outer, x) or outer(x)
        y:sum():backward()
        return x.grad
      end
      local plan = planned and ridge.capture(step)
      if not plan then step() end
      return bits.of(plan and plan:run() or step())
    end
    for _, planned in ipairs { false, true } do
      for _, own in ipairs { false, true } do
        assert.is_true(bits_of(false, planned, own) == bits_of(true, planned, own))
      end
    end
  end)

  it('is another one in each replay: both passes are in the plan, or neither is', function()
    local g, x = ridge.generator(7), ridge.ones(12):requires_grad_()
    local loss
    local plan = ridge.capture(function()
      loss = ridge.recompute(function(v) return v * ridge.rand(12, { generator = g }) end, x):sum()
      return loss
    end)
    assert.equal(2, plan:facts().n_steps - 1)
    assert.matches('capture both', failure(loss.backward, loss))
  end)

  it('may be made by the part', function()
    -- the plan's goes on from replay to replay
    local want, stands = run(false, true, true)
    local got, at = run(true, true, true)
    assert.same(want, got)
    assert.equal(stands, at)
  end)
end)

-- -- What cannot be ----------------------------------------------------------------------------

describe('what is computed again', function()
  local function again(first, second)
    local runs = 0
    return function()
      local x = ridge.ones(4, 6):requires_grad_()
      local y = ridge.recompute(function(v)
        runs = runs + 1
        return (runs == 1 and first or second)(v)
      end, x)
      y:sum():backward()
      return x.grad
    end
  end
  local function half(x) return x:dropout(0.5) end

  it('is refused where it draws otherwise than its first run', function()
    for why, case in pairs {
      ['dropout draws random numbers in the second run of a part, and its first run drew none'] = {
        function(v) return v * 2 end, half },
      ['draws random numbers in the second run of a part, and its first run drew none there'] = {
        half, function(v) return half(half(v)) end },
      ['dropout draws 24 random numbers in the second run of a part, where uniform drew 4'] = {
        function(v) return v:dropout(0) * ridge.rand(4, 1) end, half },
      ['dropout draws 24 random numbers in the second run of a part, where dropout drew 6'] = {
        function(v) return half(v:narrow(1, 1, 1)):expand(4, 6) * v end, half },
      ['dropout draws other random numbers in the second run of a part than in its first'] = {
        half, function(v) return v:dropout(0.25) end },
      ['uniform draws other random numbers in the second run of a part'] = {
        function(v) return v * ridge.rand(6) end, function(v)
          ridge.seed(8)
          return v * ridge.rand(6)
        end },
    } do
      for _, make in pairs { ridge.capture, ridge.graph } do
        local e = failure(make, again(case[1], case[2]))
        assert.matches(why, e, nil, true)
        assert.matches('graph_draws_spec.lua:%d+: recompute: ', e)
      end
    end
    ridge.capture(again(half, half)):run() -- what failed has left no state on
  end)

  -- A part that waits twice, and what is drawn by itself and by others in between; both passes.
  local function torn(captured, ...)
    local acts, others = { ... }, {}
    local w = ridge.full(2, 64):requires_grad_()
    for i = 1, 2 do others[i] = table.remove(acts, i + 1) end
    local function f()
      local first = true
      local co = coroutine.wrap(function()
        local y = ridge.recompute(function(v)
          for i = 1, 3 do
            v = acts[i](v)
            if first and i < 3 then coroutine.yield() end
          end
          first = false
          return v
        end, w)
        return y
      end)
      for i = 1, 2 do
        co()
        others[i]()
      end
      local y = co()
      w:zero_grad()
      y:sum():backward()
      return w.grad, y
    end
    local grad, y = f()
    if captured then grad, y = ridge.capture(f):run() end
    assert.is_true((y:detach() / 2):equal(grad))
  end

  it('follow one another where the part yields, or it is refused', function()
    local own = ridge.generator(4)
    local function none(x) return x end
    local function draw(x) return x and x:dropout(0.5) or ridge.rand(3) end
    local function other() return ridge.rand(3, { generator = own }) end
    local function with(x) return x * ridge.rand(64, { generator = own }):gt(0.5):to 'f32' end
    local function seed() ridge.seed(8) end
    for _, captured in ipairs { false, true } do
      for _, right in ipairs { { none, draw, none, draw, none }, { draw, draw, none, other, none },
        { draw, none, draw, none, draw }, { with, draw, none, seed, none } } do
        torn(captured, unpack(right))
      end
      for _, wrong in ipairs { { draw, draw, draw, none, none }, { none, draw, none, none, draw },
        { none, none, none, draw, draw }, { with, other, none, none, with },
        { draw, seed, none, none, draw }, { draw, draw, none, draw, draw } } do
        assert.matches('the part yielded, others drew random numbers meanwhile',
          failure(torn, captured, unpack(wrong)))
      end
    end
    torn(false, with, draw, with, none, none)
    assert.matches('the part yielded', failure(torn, true, with, draw, with, none, none))
  end)

  it('may draw less, and nothing', function()
    local plan = ridge.capture(again(half, function(v) return v * 2 end))
    for _ = 1, 2 do assert.is_true(ridge.full(2, 4, 6):equal(plan:run())) end
    ridge.capture(again(function(v) return v:dropout(0) end, function(v)
      return v:dropout(0):dropout(0)
    end)):run()
  end)

  it('is refused where its first run is in no plan, or in another one', function()
    local function part(v) return v:dropout(0.5) * 2 end
    local x = ridge.ones(6):requires_grad_()
    local function ran() -- gives what goes back
      local y = ridge.recompute(part, x):sum()
      return function()
        y:backward()
        return x.grad
      end
    end
    for _, make in pairs { ridge.capture, ridge.graph } do
      assert.matches('recompute: the part ran before this capture began', failure(make, ran()))
    end
    local plan = ridge.capture(function() return ridge.recompute(part, x) end)
    assert.matches('recompute: the part was captured and its backward pass is not',
      failure(function() plan:run():sum():backward() end))
    local steps = require('ridge.plan').steps
    assert.matches('recompute: calls captured without a graph draw new random numbers',
      failure(steps, ridge.recompute, part, x))
    assert.matches('recompute: the part ran before this capture began', failure(steps, ran()))
    -- where nothing is drawn it makes no difference
    local z = ridge.recompute(function(v) return v * 2 end, x):sum()
    ridge.capture(function()
      z:backward()
      return x.grad
    end):run()
    steps(ridge.recompute, function(v) return v * 2 end, x):run()
  end)

  it('goes back twice with the same numbers', function()
    local x = ridge.arange(1, 40):requires_grad_()
    local plan = ridge.capture(function()
      x:zero_grad()
      local y = ridge.recompute(function(v) return (v * 2):dropout(0.5) end, x)
      local sum = y:sum()
      sum:backward { retain = true }
      sum:backward()
      return y, x.grad
    end)
    for _ = 1, 3 do
      local y, grad = plan:run()
      assert.is_true((x:detach() * grad / 2):equal(y:detach()))
    end
  end)
end)

describe('a trainer', function()
  it('has plans of steps that recompute and draw, and learns what it learns without', function()
    local said
    local function fit(given)
      ridge.seed(4)
      said = {}
      local net = nn.Sequential(block(1), block(2), nn.Linear(16, 4, { seed = 9 }))
      local x = ridge.randn(48, 16, { generator = ridge.generator(2) })
      given.optimizer = optim.AdamW(net, { lr = 0.01 })
      given.say = function(line) said[#said + 1] = line end
      local trainer = ridge.Trainer(net, given)
      trainer:fit(ridge.data.Loader({ x, x:narrow(2, 1, 4):argmax(2) }, { batch = 16, seed = 5 }),
        { epochs = 4 })
      local plans = 0
      for made in trainer.batch.plans:each() do plans = plans + (made.plan and 1 or 0) end
      return table.concat(bits.all(net:state())), plans
    end
    for _, amp in ipairs { false, true } do
      local plain = fit { amp = amp }
      for _, given in ipairs { { recompute = true }, { compile = true },
        { recompute = true, compile = true }, { level = 'advanced' } } do
        given.amp = amp
        local left, plans = fit(given)
        assert.is_true(plain == left)
        assert.equal((given.compile or given.level) and 1 or 0, plans)
        assert.not_matches('goes on without', table.concat(said, '\n'))
        if given.recompute or given.level then
          assert.matches('2 blocks keep their input alone', table.concat(said, '\n'))
        end
      end
    end
  end)
end)
