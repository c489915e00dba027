-- SPDX-License-Identifier: MIT
-- Losses by their formulas, and what they say of wrong labels; the record itself is in tests/op.
local ridge = require 'ridge'
local nn = ridge.nn

local function message(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err)
end

local function classes(list) return ridge.tensor(list, { dtype = 'i64' }) end

describe('cross entropy', function()
  local x = ridge.tensor { { 1, 2, 3 }, { 0, 0, 0 } }
  local first = math.log(math.exp(-2) + math.exp(-1) + 1)

  it('is log(sum(exp)) less the score of the label', function()
    assert.near((first + math.log(3)) / 2, nn.cross_entropy(x, classes { 2, 0 }):item(), 1e-6)
    local each = nn.cross_entropy(x, classes { 2, 0 }, { reduction = 'none' }):tolist()
    assert.near(first, each[1], 1e-6)
    assert.near(math.log(3), each[2], 1e-6)
  end)

  it('reads labels the way they lie', function()
    local scores = ridge.tensor({ { { 1, 2, 3 }, { 0, 0, 0 } }, { { 3, 2, 1 }, { 0, 0, 0 } } })
      :requires_grad_()
    local turned = classes { { 2, 0 }, { 1, 2 } }:t() -- 2 and 1, 0 and 2
    local each = nn.cross_entropy(scores, turned, { reduction = 'none' })
    for i, row in ipairs(each:tolist()) do
      assert.near(first, row[1], 1e-6, i)
      assert.near(math.log(3), row[2], 1e-6, i)
    end
    each:sum():backward()
    for i, label in ipairs { 2, 3 } do
      for k, slope in ipairs(scores.grad:tolist()[i][2]) do
        assert.near(k == label and -2 / 3 or 1 / 3, slope, 1e-6)
      end
    end
  end)

  it('is of whole tiles of classes, and of one more', function()
    for _, n in ipairs { 511, 512, 513, 1024 } do
      assert.near(math.log(n), nn.cross_entropy(ridge.zeros(2, n), classes { n - 1, 0 }):item(),
        1e-5)
    end
  end)

  it('spreads what smoothing says, weighs classes and leaves rows out', function()
    local smooth = nn.cross_entropy(x, classes { 2, 0 }, { smoothing = 0.3, reduction = 'none' })
    assert.near(0.7 * first + 0.1 * (3 * (first + 3) - 6), smooth:tolist()[1], 1e-5)
    local weight = ridge.tensor { 3, 1, 1 }
    assert.near((first + 3 * math.log(3)) / 4,
      nn.cross_entropy(x, classes { 2, 0 }, { weight = weight }):item(), 1e-6)
    assert.near(first, nn.CrossEntropyLoss({ ignore = 0 })(x, classes { 2, 0 }):item(), 1e-6)
    assert.near(first, nn.cross_entropy(x, classes { 2, -100 }):item(), 1e-6)
  end)

  it('is finite for scores beyond the range of exp', function()
    local far = ridge.tensor { { 1e4, -1e4 } }:requires_grad_()
    local loss = nn.cross_entropy(far, classes { 1 })
    assert.equal(2e4, loss:item())
    loss:backward()
    assert.same({ { 1, -1 } }, far.grad:tolist())
  end)

  it('names a label that is no class, and its row', function()
    assert.matches('label 3 in row 2 is no class; they go from 0 to 2',
      message(nn.cross_entropy, x, classes { 2, 3 }))
    assert.matches('label %-1 in row 1', message(nn.cross_entropy, x, classes { -1, 0 }))
    assert.matches('wanted one for each row of f32%[2,3%]',
      message(nn.cross_entropy, x, classes { 1 }))
    assert.matches('wanted whole numbers', message(nn.cross_entropy, x, ridge.zeros(2)))
    assert.matches('unknown option', message(nn.CrossEntropyLoss, { smooth = 0.1 }))
  end)
end)

describe('losses of numbers', function()
  local x, y = ridge.tensor { 1, 2, -3 }, ridge.tensor { 1, 0, 0 }

  it('are their formulas', function()
    assert.near((0 + 4 + 9) / 3, nn.mse_loss(x, y):item(), 1e-6)
    assert.near(5, nn.L1Loss({ reduction = 'sum' })(x, y):item(), 1e-6)
    assert.near((0 + 1.5 + 2.5) / 3, nn.huber_loss(x, y):item(), 1e-6)
    assert.near((0 + 2 + 4.5) / 3, nn.huber_loss(x, y, { delta = 5 }):item(), 1e-6)
    local wanted = {}
    for i, v in ipairs { 1, 2, -3 } do
      local p, t = 1 / (1 + math.exp(-v)), y:tolist()[i]
      wanted[i] = -2 * t * math.log(p) - (1 - t) * math.log(1 - p)
    end
    local found = nn.bce_with_logits(x, y, { pos_weight = 2, reduction = 'none' }):tolist()
    for i = 1, 3 do assert.near(wanted[i], found[i], 1e-6) end
    assert.near(1000, nn.bce_with_logits(ridge.tensor { -1000 }, ridge.tensor { 1 }):item(), 1e-3)
  end)

  it('say what is wrong in their own name, not in that of a step inside', function()
    local stored = x:to 'f8e4m3'
    for _, loss in ipairs { 'mse_loss', 'l1_loss', 'huber_loss', 'bce_with_logits' } do
      local ok, err = pcall(nn[loss], stored, stored)
      assert.is_false(ok)
      assert.equal(loss, err.op)
      assert.matches('^' .. loss .. ': f8e4m3 is a type for storing', err.message)
    end
  end)

  it('refuse shapes that would only broadcast', function()
    for _, loss in ipairs { 'mse_loss', 'l1_loss', 'huber_loss', 'bce_with_logits',
        'distillation_loss' } do
      assert.matches('the prediction is f32%[3%] and the target f32%[3,1%]',
        message(nn[loss], x, ridge.zeros(3, 1)))
    end
  end)
end)
