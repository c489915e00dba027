-- SPDX-License-Identifier: MIT
-- Parts of a step where cross entropy ignores labels or weighs classes: the step is the whole
-- batch's.
local ridge = require 'ridge'
local nn = ridge.nn

local function message(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err)
end

local function silent() end

describe('a trainer', function()
  local x, y

  before_each(function()
    ridge.seed(7)
    x = ridge.randn(90, 6)
    y = x:argmax(2)
  end)

  it('counts labels that are not ignored, and their weights, as the whole batch does', function()
    local labels = y:clone()
    for i = 1, 90 do -- the more, the later; rows 33 to 40 have none
      if i % 16 < i / 8 or i > 32 and i <= 40 then labels[i] = 3 end
    end
    local heavy = ridge.tensor { 1, 5, 0.5, 2, 1, 3 }
    local function made(loss, batch, given)
      local net = nn.Linear(6, 6, { seed = 1 })
      local opts = { optimizer = ridge.optim.SGD(net, { lr = 0.5 }), say = silent, loss = loss }
      for key, value in pairs(given) do opts[key] = value end
      local t = ridge.Trainer(net, opts)
      local data = ridge.data.Loader({ x, labels }, { batch = batch, shuffle = false })
      return net, t, t:fit(data, { epochs = 2 }), data
    end
    for name, opts in pairs { ignored = { ignore = 3 }, smooth = { ignore = 3, smoothing = 0.2 },
      weights = { weight = heavy }, both = { weight = heavy, ignore = 3 } } do
      for _, loss in ipairs { nn.CrossEntropyLoss(opts), function(output, target)
        return nn.cross_entropy(output:reshape(#target, 6), target, opts)
      end } do
        -- the gradient of the mean over all 90, by hand
        local by_hand = nn.Linear(6, 6, { seed = 1 }):train()
        local rate = ridge.optim.SGD(by_hand, { lr = 0.5 })
        local first, sum, share
        for _ = 1, 2 do
          rate:zero_grad()
          local out = by_hand(x)
          sum, share = nil, 0
          for i = 1, 90 do
            local label = labels[i]:item()
            local w = opts.weight and opts.weight[label + 1]:item() or 1
            if label ~= opts.ignore then
              local each = { weight = opts.weight, smoothing = opts.smoothing, reduction = 'sum' }
              local one = nn.cross_entropy(out:narrow(1, i, 1), labels:narrow(1, i, 1), each)
              sum, share = sum and sum + one or one, share + w
            end
          end
          (sum / share):backward()
          first = first or sum:item() / share
          rate:step()
        end
        local scaler = ridge.optim.GradScaler { scale = 8 }
        for _, given in ipairs { { accumulate = 12 }, { accumulate = 12, compile = true },
          { accumulate = 12, stability = {} }, { accumulate = 12, scaler = scaler },
          { cut = true } } do
          local cut = given.cut
          given.cut = nil
          local net = nn.Linear(6, 6, { seed = 1 })
          given.optimizer, given.say = ridge.optim.SGD(net, { lr = 0.5 }), silent
          given.loss = loss
          local t = ridge.Trainer(net, given)
          if cut then t.batch.parts = 12 end -- as after want of memory
          local data = ridge.data.Loader({ x, labels }, { batch = cut and 90 or 8,
            shuffle = false })
          local history = t:fit(data, { epochs = 2 })
          assert.is_true(net.weight:allclose(by_hand.weight, 1e-4, 1e-5), name)
          assert.near(first, history[1].loss, 1e-5, name)
          assert.near(first, t.curve[1].loss, 1e-5, name)
          assert.are.equal(0, history[1].not_finite)
        end
        local _, t, _, data = made(loss, 90, {})
        local one, right = t:validate(data)
        local small = ridge.data.Loader({ x, labels }, { batch = 8, shuffle = false })
        local many, as_right = t:validate(small)
        assert.near(one, many, 1e-5)
        assert.near(right, as_right, 1e-12)
        if opts.ignore then
          local hits, n = 0, 0
          local guess = t.model(x):argmax(2)
          for i = 1, 90 do
            if labels[i]:item() ~= 3 then
              n, hits = n + 1, hits + (guess[i]:item() == labels[i]:item() and 1 or 0)
            end
          end
          assert.near(hits / n, right, 1e-12)
        end
      end
    end
  end)

  it('counts them where losses come from a device, once they are there', function()
    local Batch = require 'ridge.train.batch'
    for _, told in ipairs { { { 0.75, 3 }, true, 0.75, 3 }, { { 0 / 0, 0 }, true, 0, 0 },
      { { 0.75 }, nil, 0.75, nil } } do
      local found = { coming = ridge.tensor(told[1], { dtype = 'f64' }), total = told[2] }
      for _ = 1, 2 do -- the second time from what is known
        local value, weight = Batch.value(found)
        assert.same({ told[3], told[4] }, { value, weight })
      end
      assert.is_nil(found.coming)
    end
  end)

  it('counts them also where a loss waits in a coroutine while another is computed', function()
    local losses, out = require 'ridge.nn.loss', nn.Linear(6, 6, { seed = 1 })(x):detach()
    local labels = y:clone()
    for i = 1, 30 do labels[i] = 3 end
    local function loss(output, target)
      local found = nn.cross_entropy(output, target, { ignore = 3 })
      coroutine.yield()
      return found
    end
    local total
    local wait = coroutine.wrap(function()
      total = select(2, losses.with_total(loss, out, labels))
    end)
    wait()
    assert.are.equal(90, select(2, losses.with_total(nn.cross_entropy, out, labels)):item())
    nn.cross_entropy(out, labels)
    wait()
    assert.are.equal(labels:ne(3):to('f64'):sum():item(), total and total:item())
  end)

  it('has no loss where every label of a step is ignored', function()
    local net = nn.Linear(6, 6, { seed = 1 })
    local none = (ridge.zeros(90) + 3):to 'i64'
    local data = ridge.data.Loader({ x, none }, { batch = 30, shuffle = false })
    local before = net.weight:detach():clone()
    local function trainer(accumulate, stability)
      return ridge.Trainer(net, { optimizer = ridge.optim.SGD(net, { lr = 0.5 }), say = silent,
        loss = nn.CrossEntropyLoss { ignore = 3 }, accumulate = accumulate,
        stability = stability })
    end
    for _, accumulate in ipairs { 1, 3 } do
      local t = trainer(accumulate)
      assert.matches('loss of batch %d in epoch 1 is nan', message(t.fit, t, data, { epochs = 1 }))
      t = trainer(accumulate, {})
      t:fit(data, { epochs = 1 })
      assert.are.equal(0, t.stability:summary().taken)
      assert.is_true(net.weight:equal(before))
    end
  end)
end)
