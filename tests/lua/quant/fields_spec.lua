-- SPDX-License-Identifier: MIT
--- What a file may have in the fields of quantized layers: each condition kept and broken.

local fields = require 'ridge.quant.fields'

describe('fields of a file', function()
  local one = { count = 1 }
  local function module(name, own, tensors)
    local m = setmetatable({ training = false, _tensors = {} }, { __name = name })
    for _, tensor in ipairs(tensors) do m._tensors[tensor] = one end
    for key, value in pairs(own) do m[key] = value end
    return m
  end
  local function dense(more)
    local own = { n_in = 4, n_out = 0, activation = 'relu' }
    for key, value in pairs(more or {}) do own[key] = value ~= 'none' and value or nil end
    return own
  end
  -- What is wrong with a quant.Linear; without some tensor.
  local function wrong(more, lacks)
    local list = {}
    for _, name in ipairs { 'weight', 'weight_scale', 'x_scale', 'x_zero_point', 'y_scale' } do
      if name ~= lacks then list[#list + 1] = name end
    end
    local why = fields.wrong(module('quant.Linear', dense(more), list))
    return why and why:match '^the (.*) of a quant.Linear is missing or none that it can have$'
      or why
  end

  it('of a dense layer are its sizes, activation and tensors', function()
    assert.is_nil(wrong())
    assert.is_nil(wrong { n_in = 2 ^ 31 })
    for _, value in ipairs { 2 ^ 31 + 1, -1, 0.5, 'none', '4' } do
      assert.equal('field n_in', wrong { n_in = value })
      assert.equal('field n_out', wrong { n_out = value })
    end
    assert.equal('field activation', wrong { activation = 'zork' })
    assert.equal('field activation', wrong { activation = 'none_' })
    assert.equal('tensor weight', wrong({}, 'weight'))
    assert.equal('tensor weight_scale', wrong({}, 'weight_scale'))
    assert.is_nil(wrong({}, 'x_scale'))
    assert.equal('a quant.Linear that is quantized is in training mode', wrong { training = true })
  end)

  it('of a known range are a type and its zero, and bytes on', function()
    assert.is_nil(wrong { x_dtype = 'u8', x_zero = 255 })
    assert.is_nil(wrong { x_dtype = 'i8', x_zero = -128 })
    assert.is_nil(wrong { x_dtype = 'i8', x_zero = 127 })
    assert.equal('field x_dtype', wrong { x_dtype = 'f32', x_zero = 0 })
    for dtype, zeros in pairs { u8 = { -1, 256, 0.5 }, i8 = { -129, 128 } } do
      for _, zero in ipairs(zeros) do
        assert.equal('field x_zero', wrong { x_dtype = dtype, x_zero = zero })
        assert.equal('field out', wrong { out = { dtype = dtype, zero = zero } })
      end
    end
    assert.equal('tensor x_scale', wrong({ x_dtype = 'u8', x_zero = 0 }, 'x_scale'))
    assert.equal('tensor x_zero_point', wrong({ x_dtype = 'u8', x_zero = 0 }, 'x_zero_point'))
    one.count = 2
    assert.equal('tensor x_scale', wrong { x_dtype = 'u8', x_zero = 0 })
    one.count = 1
    assert.is_nil(wrong { out = { dtype = 'u8', zero = 0 } })
    assert.equal('field out', wrong { out = 3 })
    assert.equal('field out', wrong { out = { dtype = 'f32', zero = 0 } })
    assert.equal('tensor y_scale', wrong({ out = { dtype = 'u8', zero = 0 } }, 'y_scale'))
  end)

  it('of other layers are those that their code takes', function()
    local function of(name, own, tensors)
      local why = fields.wrong(module('quant.' .. name, own, tensors or {}))
      return why and why:match '^the (.*) of a quant' or why
    end
    local four = { 'weight', 'weight_scale', 'x_scale', 'x_zero_point' }
    local function sizes(more)
      local own = { stride = { 1, 1 }, dilation = { 1, 1 }, padding = { 0, 1, 0, 1 }, groups = 1,
        layout = 'nchw' }
      for key, value in pairs(more or {}) do own[key] = value end
      return own
    end
    local function conv(more)
      local own = dense { kernel = { 3, 0 }, conv = sizes() }
      for key, value in pairs(more) do own[key] = value end
      return of('Conv2d', own, four)
    end
    assert.is_nil(conv {})
    for _, kernel in ipairs { 3, { 3 }, { 3, -1 }, { -1, 3 } } do
      assert.equal('field kernel', conv { kernel = kernel })
    end
    assert.equal('field conv', conv { conv = 3 })
    for name, values in pairs { stride = { 1, { 1 } }, dilation = { 1, { 1, 'x' } },
      groups = { -1 }, padding = { 1, { 0, 0, 0 }, { 0, 0, { 1 }, 0 } }, layout = { 'x' } } do
      for _, value in ipairs(values) do
        assert.equal('field conv', conv { conv = sizes { [name] = value } }, name)
      end
    end
    for i, name in ipairs(four) do
      local list = { unpack(four) }
      table.remove(list, i)
      assert.equal('tensor ' .. name, of('Conv2d', dense { kernel = { 1, 1 }, conv = sizes() },
        list))
    end
    local function packed(more, tensors)
      local own = dense { bits = 4, group = 32, padding = 0 }
      for key, value in pairs(more) do own[key] = value end
      return of('PackedLinear', own, tensors or { 'weight', 'scale' })
    end
    for _, bits in ipairs { 2, 3, 4, 6, 8 } do assert.is_nil(packed { bits = bits }) end
    for _, group in ipairs { 32, 64, 128 } do assert.is_nil(packed { group = group }) end
    assert.equal('field bits', packed { bits = 5 })
    assert.equal('field group', packed { group = 16 })
    assert.is_nil(packed { padding = 127 })
    assert.equal('field padding', packed { padding = 128 })
    assert.equal('field padding', packed { padding = -1 })
    assert.equal('tensor weight', packed({}, { 'scale' }))
    assert.equal('tensor scale', packed({}, { 'weight' }))
    assert.equal('field was', of('Folded', { into = 'x' }))
    assert.equal('field into', of('Folded', { was = 'x' }))
    assert.is_nil(of('Folded', { was = 'x', into = 'y' }))
    assert.is_nil(fields.wrong(module('own.Net', { training = true }, {})))
  end)

  it('of a report are texts', function()
    local function of(about, more)
      local own = { _quant = about }
      for key, value in pairs(more or {}) do own[key] = value end
      return fields.wrong(module('own.Net', own, {}))
    end
    local bad = 'the field _quant of a own.Net is missing or none that it can have'
    local function about(more)
      local t = { method = 'half', dtype = 'bf16', notes = { 'x' },
        rows = { { name = 'a', class = 'b', kind = 'c' } } }
      for key, value in pairs(more or {}) do t[key] = value end
      return t
    end
    assert.is_nil(of(about()))
    assert.is_nil(of(about { dtype = 'f16' }))
    assert.is_nil(of(about { method = 'dynamic', dtype = 'f32' }))
    assert.is_nil(of(about { rows = { { name = 'a', class = 'b', kind = 'c', why = 'd' } } }))
    for _, wrong_one in ipairs { 3, about { dtype = 'f32' }, about { method = 3 },
      about { rows = 3 }, about { notes = 3 }, about { notes = { 3 } }, about { rows = { 3 } },
      about { rows = { { class = 'b', kind = 'c' } } },
      about { rows = { { name = 'b', kind = 'c' } } },
      about { rows = { { name = 'b', class = 'c' } } },
      about { rows = { { name = 'a', class = 'b', kind = 'c', why = 3 } } } } do
      assert.equal(bad, of(wrong_one))
    end
    assert.equal('a own.Net that is quantized is in training mode',
      of(about(), { training = true }))
  end)
end)
