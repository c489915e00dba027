-- SPDX-License-Identifier: MIT
local complete = require 'ridge.repl.complete'
local types = require 'ridge.types'

local function names(before, env)
  local list = {}
  for i, item in ipairs((complete.candidates(before, env or {}))) do list[i] = item.name end
  return list
end

describe('completion', function()
  it('finds where the cursor stands', function()
    assert.same({ kind = 'name', chain = { 'a', 'b' }, mark = ':', prefix = 'c' },
      complete.place 'x = 1 + a.b:c')
    assert.equal('none', complete.place('f(x).y').kind)
    assert.equal('none', complete.place('-- a.b').kind)
    assert.same({ kind = 'file', prefix = 'dir/fi' }, complete.place 'load("dir/fi')
  end)

  it('offers variables, globals and keywords', function()
    assert.same({ 'loss', 'lost' }, names('los', { loss = 1, lost = 2, other = 3 }))
    assert.same({ 'while' }, names 'whil')
    assert.same({ 'ridge' }, names 'ridg')
  end)

  it('walks tables and their __index tables, never a function', function()
    local base = { inherited = 1 }
    local env = {
      a = { b = setmetatable({ own = 1 }, { __index = base }) },
      trap = setmetatable({ real = 1 }, { __index = function() error 'called' end }),
    }
    assert.same({ 'inherited', 'own' }, names('a.b.', env))
    assert.same({ 'real' }, names('trap.', env))
    assert.same({}, names('trap.x.y', env))
  end)

  it('offers methods of strings', function()
    assert.same({ 'upper' }, names('s:up', { s = '' }))
    assert.same({ 'upper' }, names '"x".up')
  end)

  it('offers methods and properties of registered types', function()
    local mark = {}
    types.register('Marked', function(v) return type(v) == 'table' and rawget(v, 1) == mark end,
      { methods = { sum = 'adds' }, properties = { shape = 'sizes' } })
    local env = { x = { mark } }
    assert.same({ 'shape', 'sum' }, names('x.', env))
    assert.same({ 'sum' }, names('x:su', env))
  end)

  it('hides names that begin with an underscore until one is typed', function()
    local env = { t = { _hidden = 1, shown = 2 } }
    assert.same({ 'shown' }, names('t.', env))
    assert.same({ '_hidden' }, names('t._', env))
  end)

  it('falls back to letters in order', function()
    local list, _, fuzzy = complete.candidates('t.sps', { t = { set_params = 1, other = 2 } })
    assert.is_true(fuzzy)
    assert.equal('set_params', list[1].name)
  end)

  it('inserts what is common, a parenthesis after a function', function()
    local env = { alpha_one = 1, alpha_two = 2, omega = print }
    assert.equal('pha_', (complete.tab('al', '', env)))
    assert.equal('ga(', (complete.tab('ome', '', env)))
    assert.equal('ga', (complete.tab('ome', '(1)', env)))
    local insert, list = complete.tab('alpha_', '', env)
    assert.equal('', insert)
    assert.equal('alpha_one  alpha_two', list)
  end)

  it('indents at the beginning of a line', function()
    assert.equal('  ', (complete.tab('', '', {})))
  end)

  it('offers the options that a function takes, less those that are there', function()
    local env = { ridge = require 'ridge' }
    assert.same({ 'device', 'dtype', 'generator', 'pinned' }, names('ridge.randn(2, 3, {', env))
    assert.same({ 'device', 'generator', 'pinned' }, names("ridge.randn(2, {dtype = 'f32', ", env))
    assert.same({ 'activation' }, names('layer = ridge.nn.Linear(3, 4, {bias = true, ac', env))
    assert.equal('ype = ', (complete.tab('ridge.zeros(2, {dt', '', env)))
    local _, list = complete.tab('ridge.nn.Linear(3, 4, {', '', env)
    assert.truthy(list:find 'bias%s+add a bias, default true')
    assert.is_nil(names('ridge.zeros({2, ', env)[1] == 'dtype' or nil)
  end)

  it('says what an option is: its default, or that it has to be there', function()
    local spec = { size = { 'integer', required = true, doc = 'rows' },
      step = { 'number', default = 2, doc = 'between them' } }
    local f = function(opts) return require('ridge.options').check(spec, opts, 'f') end
    local _, list = complete.tab('f({s', '', { f = f })
    assert.matches('size%s+rows, required', list)
    assert.matches('step%s+between them, default 2', list)
  end)

  it('offers what an option or an argument may be', function()
    local ridge = require 'ridge'
    local env = { ridge = ridge, x = ridge.ones(1), layer = ridge.nn.Linear(1, 1) }
    assert.same({ 'bf16', 'bool' }, names("ridge.ones(2, {dtype = 'b", env))
    assert.same({ 'none', 'relu' }, (function()
      local list = names("ridge.nn.Linear(1, 1, {activation = '", env)
      return { list[2], list[3] }
    end)())
    assert.same({ 'bf16', 'bool' }, names("x:to('b", env))
    assert.same({ 'f64' }, names("layer:to 'f6", env))
    assert.equal("16'", (complete.tab("x:to('bf", '', env)))
    assert.equal('16', (complete.tab("x:to('bf", "')", env)))
  end)

  it('offers commands, and what stands behind them', function()
    assert.same({ 'bench' }, names '%ben')
    assert.equal('nch ', (complete.tab('%be', '', {})))
    assert.same({ 'alpha' }, names('%time al', { alpha = 1 }))
  end)

  it('survives any text', function()
    for _, text in ipairs { '.', ':', '..', 'a..', '1.', 'a.b.c.d', '"', '[[', '\255\254', 'nil.',
      'true.x', 'a:b:c', '...', 'f().', 'f({', 'f({{', 'f(,{', '({', 'a.b{', "f'",
      "f({a='", "a:b({x='", '%', '%%', '%run', '%time', '%time {', 'f(}{', '}{', ')(' } do
      assert.has_no.errors(function() complete.tab(text, '', { a = { b = 1 } }) end)
    end
  end)
end)
