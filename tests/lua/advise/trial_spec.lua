-- SPDX-License-Identifier: MIT
--- Trials of advise on a net of one weight whose losses and gradients are computed by hand: rows of
--- the batch, noise of gradients, steps, and what is put back.

local ridge = require 'ridge'
local trial_of = require 'ridge.advise.trial'
local nn, optim = ridge.nn, ridge.optim

local function of(x) return ridge.tensor(x, { dtype = 'f32' }) end
local function column(list) return of(list):reshape(#list, 1) end

-- A net w * x with w = 2, whose loss is the mean of its output times y: its gradient is the mean of
-- x * y.
local function subject(x, y, more)
  local net = nn.Linear(1, 1, { bias = false })
  ridge.no_grad(function() net.weight:fill_(2) end)
  local s = { net = net, device = 'cpu', args = { n = 1, column(x) }, y = column(y), rows = #x,
    loss = function(out, target) return (out * target):mean() end }
  for key, value in pairs(more or {}) do s[key] = value end
  return s, trial_of.new(s, 2)
end

local function weight(s) return s.net.weight:item() end

describe('a pass of a trial', function()
  it('is of all rows, of some, of another batch, with its loss scaled for going back', function()
    local s, t = subject({ 1, 2, 3, 4 }, { 1, 1, 1, 5 })
    t:inside(function()
      local function run(how)
        s.net.weight:zero_grad()
        local loss = t:pass(how)():item()
        return { loss, s.net.weight.grad:item() }
      end
      assert.same({ 13, 6.5 }, run())
      assert.same({ 3, 1.5 }, run { rows = 2 })
      assert.same({ 23, 11.5 }, run { rows = 2, first = 3 })
      assert.same({ 13, 6.5 }, run { rows = 4 })
      assert.same({ 13, 6.5 }, run { rows = 8 }) -- the same rows twice
      assert.same({ 13, 13 }, run { scale = 2 })
      assert.same({ 13, 6.5 }, run { scale = 1 })
      assert.same({ 60, 30 }, run { args = { n = 1, column { 10 } }, y = column { 3 } })
      assert.equal(13, t:loss())
      assert.equal(23, t:loss { rows = 2, first = 3 })
      assert.near(6.5, t:gradient_norm(), 1e-6)
      assert.near(6.5, t:gradient_norm(), 1e-6) -- gradients begin at 0
      assert.near(26, t:gradient_norm { scale = 4 }, 1e-5)
    end)
  end)

  it('leaves what is no batch as it is', function()
    local s, t = subject({ 1, 2 }, { 1, 1 })
    local seen
    s.args = { n = 3, column { 1, 2 }, { of { 5, 6 }, of { 7 }, 'word' }, of(9) }
    s.net = setmetatable({ }, { __call = function(_, ...) seen = { ... } return (...) end })
    s.loss = function(out) return (out * ridge.ones(1):requires_grad_()):sum() end
    t:pass { rows = 1, first = 2 }()
    assert.same({ { 2 } }, seen[1]:tolist())
    assert.same({ 6 }, seen[2][1]:tolist())
    assert.same({ 7 }, seen[2][2]:tolist())
    assert.equal('word', seen[2][3])
    assert.equal(9, seen[3]:item())
  end)

  it('is in the kind of the subject, in another, in none', function()
    local _, t = subject({ 1 }, { 1 }, { autocast = 'bf16', loss = function(out)
      return (out.dtype == 'bf16' and 1 or out.dtype == 'f16' and 2 or 3) * out:to('f32'):sum() / 2
    end })
    t:inside(function()
      assert.equal(1, t:loss())
      assert.equal(2, t:loss { autocast = 'f16' })
      assert.equal(3, t:loss { autocast = false })
    end)
  end)

  it('without a gradient is refused', function()
    local _, t = subject({ 1 }, { 1 }, { loss = function() return ridge.ones(1):sum() end })
    t:inside(function()
      local ok, err = pcall(t.loss, t)
      assert.is_false(ok)
      assert.equal('no gradient flows through what the net returns', err.message)
    end)
  end)
end)

describe('the noise of gradients', function()
  local function noise(x, y)
    local _, t = subject(x, y or { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 })
    return t:inside(function()
      local rows, why = t:noise_scale()
      return { rows, why }
    end)
  end

  it('is that of eight parts against their mean', function()
    -- gradients of one row each: 1 and 3 by turns. Of the mean 4, of parts 5: signal
    -- (8 * 4 - 5) / 7, noise 1 / (1 - 1 / 8)
    local found = noise({ 1, 3, 1, 3, 1, 3, 1, 3 }, { 1, 1, 1, 1, 1, 1, 1, 1 })[1]
    assert.near((8 / 7) / (27 / 7), found, 1e-6)
    -- parts of two rows, and a row that is left: signal (16 * 4 - 2 * 5) / 14, noise
    -- 1 / (1/2 - 1/16)
    found = noise({ 1, 1, 3, 3, 1, 1, 3, 3, 1, 1, 3, 3, 1, 1, 3, 3, 99 }, { 1, 1, 1, 1, 1, 1, 1, 1,
      1, 1, 1, 1, 1, 1, 1, 1, 1 })[1]
    assert.near((16 / 7) / (27 / 7), found, 1e-6)
    assert.equal(0, noise({ 2, 2, 2, 2, 2, 2, 2, 2 }, { 1, 1, 1, 1, 1, 1, 1, 1 })[1])
    assert.equal(math.huge, noise({ 1, -1, 1, -1, 1, -1, 1, -1 }, { 1, 1, 1, 1, 1, 1, 1, 1 })[1])
  end)

  it('is not known of few rows, nor of what is not finite', function()
    local few = { 1, 1, 1, 1, 1, 1, 1 }
    assert.same({ nil, 'the batch has fewer than 8 rows' }, noise(few, few))
    local _, t = subject(few, few)
    t.s.rows = nil
    assert.equal('the batch has fewer than 8 rows', select(2, t:noise_scale()))
    assert.same({ nil, 'a gradient is not finite' },
      noise({ 1, 1, 1, 1, 1, 1, 1, 0 / 0 }, { 1, 1, 1, 1, 1, 1, 1, 1 }))
    assert.same({ nil, 'a gradient is not finite' },
      noise({ 1, 1, 1, 1, 1, 1, 1, 1 / 0 }, { 1, 1, 1, 1, 1, 1, 1, 1 }))
  end)
end)

describe('steps of a trial', function()
  -- Does something hold about times, one time of five at least: others' work is no verdict.
  local function quietly(f)
    for _ = 1, 5 do
      if f() then return true end
    end
    return false
  end

  -- How many losses a profile saw.
  local function means(p)
    for _, row in ipairs(p.operations) do if row.op == 'mean' then return row.calls end end
    error(tostring(p))
  end

  it('go down at the rate that is asked, else at their own, and are put back', function()
    local s, t = subject({ 1, 3 }, { 1, 1 })
    s.optimizer = optim.SGD(s.net:parameters(), { lr = 0.125 })
    t:inside(function()
      -- the gradient is 2, the loss twice the weight
      assert.same({ 4, 3.5, 3 }, t:descent(3))
      assert.equal(2, weight(s))
      assert.equal(0.125, s.optimizer:lr())
      assert.same({ 4, 2 }, t:descent(2, 0.5))
      assert.equal(2, weight(s))
      assert.equal(0.125, s.optimizer:lr())
      assert.same({ 4 }, t:descent(1))
      s.loss = function() error 'from the loss' end
      local ok, err = pcall(t.descent, t, 2, 0.5)
      assert.is_false(ok)
      assert.matches('from the loss', tostring(err))
      assert.equal(0.125, s.optimizer:lr())
    end)
  end)

  it('are clipped as the subject clips', function()
    local s, t = subject({ 1, 3 }, { 1, 1 }, { clip = 1 })
    s.optimizer = optim.SGD(s.net:parameters(), { lr = 0.125 })
    t:inside(function()
      for i, loss in ipairs(t:descent(3)) do assert.near(4.25 - 0.25 * i, loss, 1e-5) end
    end)
  end)

  it('are profiled on batches as the loader gives them, round after round', function()
    local given, rounds, sums
    local function seen()
      local s, t = subject({ 1, 3 }, { 1, 1 })
      given, rounds, sums = 0, 0, {}
      s.loader = { each = function()
        rounds = rounds + 1
        local i = 0
        return function()
          i = i + 1
          if i > 3 then return nil end
          given = given + 1
          return column { i, i }, column { 1, 1 }
        end
      end }
      s.loss = function(out, y)
        local loss = (out * y):mean()
        sums[#sums + 1] = loss:item()
        return loss
      end
      return t:inside(function() return means(t:observe { lines = false, roof = 'none' }) end)
    end
    -- the shortest steps: forty, of which two warm up
    assert.is_true(quietly(function() return seen() == 38 end))
    assert.equal(40, given)
    assert.equal(14, rounds)
    -- what finds how long a step takes is of the batch that is known: twice
    assert.same({ 4, 4, 2, 4, 6, 2 }, { unpack(sums, 1, 6) })
    assert.equal(42, #sums)
  end)

  it('are five at least, and of the known batch without a loader', function()
    local s, t = subject({ 1, 3 }, { 1, 1 })
    local n = 0
    s.loss = function(out)
      n = n + 1
      if n == 2 then -- the one that is timed
        local until_ = os.clock() + 0.26
        while os.clock() < until_ do end
      end
      return out:mean()
    end
    t:inside(function() assert.equal(3, means(t:observe { lines = false, roof = 'none' })) end)
    assert.equal(7, n)
  end)

  it('wait for a loader between passes, but for what is ahead', function()
    local passes, asked, begun
    local function waited()
      local s, t = subject({ 1, 3 }, { 1, 1 })
      passes, asked, begun = 0, 0, 0
      s.loss = function(out) passes = passes + 1 return out:mean() end
      local loader = { each = function()
        begun = begun + 1
        local left = 3
        return function()
          asked, left = asked + 1, left - 1
          if left < 0 then return nil end
          if asked <= 2 then -- what fills it is not counted
            local until_ = os.clock() + 0.05
            while os.clock() < until_ do end
          end
          return column { 1 }
        end
      end }
      return t:inside(function() return t:waiting_for(loader, 4) end)
    end
    assert.is_true(quietly(function()
      local ns = waited()
      return ns > 0 and ns < 2e7
    end))
    assert.equal(6, passes)
    assert.equal(2, begun)
    assert.equal(7, asked)
  end)
end)
