-- SPDX-License-Identifier: MIT
-- Names that a text uses and nothing declares, and fields of ridge that are not there, in every
-- branch: `ridge check`.
local folders = dofile 'tests/lua/store/folder.lua'
local scopes = require 'ridge.repl.scopes'

-- A library that has nn with Linear, and save.
local HAS = { ridge = { nn = true, save = true }, ['ridge.nn'] = { Linear = true } }

local function missing(owner, field)
  if HAS[owner] and not HAS[owner][field] then return owner .. ' has no ' .. field end
end

local function module(name)
  if name == 'ridge.nn' then return name end
  if name ~= 'ridge.inner' then return nil, 'no module ' .. name end
end

local function check(text, globals)
  assert(loadstring(text))
  local out = {}
  for i, each in ipairs(scopes.check(text, globals or { print = print, require = require,
      pairs = pairs, error = error, pcall = pcall, package = package, rawset = rawset,
      setmetatable = setmetatable }, missing, module)) do
    out[i] = each.line .. ' ' .. each.message
  end
  return table.concat(out, '\n')
end

describe('names of a text', function()
  it('are there where they are declared', function()
    for _, text in ipairs { '', 'local a = 1 print(a)',
      'local function f(a, ...) return f(a, ...) end',
      'for i = 1, 3 do print(i) end', 'for k, v in pairs {} do print(k, v) end',
      'repeat local x = 1 until x == 1', 'local a, b = 1, 2 a, b = b, a',
      'local t = { a = 1, [print] = 2, 3; print } t.a.b = t[1]', 'local t = {} function t.f() end '
        .. 'function t:g(a) return self, a end t:g(1).x = 2', 'local s = ("x"):rep(2) print(s)',
      'goto out do print "x" end ::out::', 'local f = function(...) local n = ... return n end f()',
      'if print then print() elseif not print then print [[x]] else print {} end',
      'local a = -#{} ^ 2 .. "x" == "y" and not nil or 3LL print(a)', 'while print do break end',
      'local nn = require "ridge".nn print(nn.Linear)', "local r = require('ridge') r.save()",
      'print(1)', 'return',
      'local x = 1 ' .. ('if x then '):rep(190) .. 'print(x)' .. (' end'):rep(190),
      'return function() return print end', 'local a a = 1; (print)(a)' } do
      assert.equal('', check(text), text)
    end
  end)

  it('are said with their line where nothing declares them', function()
    assert.equal("2 undeclared variable 'pritn' (did you mean 'print'?)", check 'local a\npritn(a)')
    assert.equal("1 undeclared variable 'batchh' (did you mean 'batch'?)",
      check 'local batch = 1 print(batch + batchh)')
    assert.equal("3 undeclared variable 'x'", check 'do\nlocal x = 1 print(x) end\nprint(x)')
    assert.equal("1 undeclared variable 'a'", check 'local a = a') -- its own value is not yet there
    assert.equal("1 undeclared variable 'i'", check 'for i = i, 2 do end')
    assert.equal("1 undeclared variable 'x'", check 'while x do local x end')
    assert.equal("1 assignment to undeclared variable 'n': write `local n`", check 'n = 1')
    assert.equal("1 assignment to undeclared variable 'f': write `local f`",
      check 'function f() end')
    assert.equal("1 undeclared variable 'ridge': write `local ridge = require 'ridge'`",
      check 'ridge.save()')
    -- in the branches that a run reaches after hours
    for _, text in ipairs { 'if print then print(1) else\n%s end', 'print(function(a)\n%s end)',
      'local function f() for i = 1, 2 do\n%s end end', 'repeat\n%s until true',
      'while true do\n%s end', 'local t = { f = function() return function()\n%s end end }',
      'print(print, function()\n%s end)', 'do do do\n%s end end end' } do
      assert.equal("2 undeclared variable 'zork'", check(text:format 'print(zork.a[zork2 and 1])')
        :gsub("\n2 undeclared variable 'zork2'[^\n]*$", ''), text)
    end
  end)

  it('of ridge are looked for, through locals that are parts of it', function()
    local head = "local ridge = require 'ridge'\n"
    for text, said in pairs {
      ['ridge.sav()'] = '2 ridge has no sav', ['print(ridge.nn.Lin)'] = '2 ridge.nn has no Lin',
      ['local nn = ridge.nn\nprint(nn.Lin(1))'] = '3 ridge.nn has no Lin',
      ['local a, nn = 1, ridge.nn\nif a then\nnn.Lin(1):x() end'] = '4 ridge.nn has no Lin',
      ['local nn = ridge.nm'] = '2 ridge has no nm', ['ridge.sav.x = 1'] = '2 ridge has no sav',
      ['return { x = ridge.sav }'] = '2 ridge has no sav',
      ['print(ridge.save(ridge.sav))'] = '2 ridge has no sav',
      ['local t = { ridge = { sav = 1 } } print(t.ridge.sav)'] = '',
      ['local function f(ridge) return ridge.sav end f(1)'] = '',
      ['do local ridge = {} print(ridge.sav) end'] = '',
      ['local nn = ridge.nn\nnn = {}\nprint(nn.Lin)'] = '',
      ['ridge.mine = 1\nprint(ridge.mine)'] = '',
      ['function ridge.nn.Mine() end ridge.nn.Mine()'] = '',
      ['ridge.nn.Linear.anything()'] = '', ['ridge.nn:Lin(1)'] = '2 ridge.nn has no Lin',
      ['local x = ridge.nn.Linear(1).weight'] = '',
    } do
      assert.equal(said, check(head .. text), text)
    end
  end)

  it('of ridge are looked for in brackets, where they are written there', function()
    local head = "local ridge, name = require 'ridge', 'x'\n"
    for text, said in pairs {
      ['print(ridge["sav"])'] = '2 ridge has no sav',
      ['print(ridge[ [[sav]] ])'] = '2 ridge has no sav',
      ['print(ridge["\\115av"])'] = '2 ridge has no sav',
      ["print(ridge.nn['Lin'])"] = '2 ridge.nn has no Lin',
      ["print(ridge['nn'].Lin)"] = '2 ridge.nn has no Lin',
      ["local nn = ridge['nn']\nprint(nn['Lin'](1))"] = '3 ridge.nn has no Lin',
      ["ridge['sav'].x = 1"] = '2 ridge has no sav',
      ["print(ridge['nn'.. name], ridge['nn']['Lin'])"] = '2 ridge.nn has no Lin',
      ["print(ridge['a b'])"] = '2 ridge has no a b',
      -- what is computed
      ['print(ridge[name], ridge.nn[name .. "Lin"], ridge["sav" .. name])'] = '',
      ['print(ridge[("sav")], ridge[1], ridge[name].sav, ridge.nn[name and "Lin"].x)'] = '',
      ['print(ridge["nn"]["Linear"], ridge["save"]())'] = '',
      ["local t = { ['sav'] = 1 } print(t['sav'], t[ridge].sav, t['ridge']['sav'])"] = '',
      ["local s = 'ridge[\"sav\"]' print(s, ('x')['sav'])"] = '',
      -- what the text puts there itself, before or behind
      ["ridge['mine'] = 1 print(ridge.mine, ridge['mine'])"] = '',
      ["local function f() return ridge.mine end ridge.mine = f"] = '',
      ["for k in pairs {} do ridge.nn[k] = k end print(ridge.nn.Lin, ridge.nn['Lin'])"] = '',
      ["ridge[name], name = 1, 2 print(ridge.sav, ridge.nn.Linear)"] = '',
      ["ridge.nn[name] = 1 print(ridge.sav)"] = '2 ridge has no sav',
      ["print(ridge[name].x == ridge.sav)"] = '2 ridge has no sav',
      ["rawset(ridge, name, 1) print(ridge.sav)"] = '',
      ["setmetatable(ridge.nn, {}) print(ridge.nn.Lin)"] = '',
      ["ridge['mine'] = 1 print(ridge.sav)"] = '2 ridge has no sav',
      ["ridge[name].x = 1 print(ridge.sav)"] = '2 ridge has no sav',
      ["rawset({}, ridge, 1) print(ridge.sav)"] = '2 ridge has no sav',
    } do
      assert.equal(said, check(head .. text), text)
    end
  end)

  it('of modules of ridge are looked for where they are required', function()
    for text, said in pairs {
      ["require 'ridge.nope'"] = '1 no module ridge.nope',
      ["local a = require('ridge.nope').x print(a)"] = '1 no module ridge.nope',
      ['print(require [[ridge.nope]])'] = '1 no module ridge.nope',
      ["local nn = require 'ridge.nn'\nnn.Lin(1)"] = '2 ridge.nn has no Lin',
      ["print(require('ridge.nn')['Lin'])"] = '1 ridge.nn has no Lin',
      ["local i = require 'ridge.inner' i.anything(i['x'])"] = '',
      ["local ridge = require 'ridge' .. 'x'\nprint(ridge.sav)"] = '',
      ["local r = require('ridge' .. 'x')\nprint(r.sav)"] = '',
      ["local r = require('ridge.' .. 'x', 'ridge.nope')\nprint(r.sav)"] = '',
      ["require 'nope' require 'ridges.nope' require 'ridge_nope'"] = '',
      ["print(pcall(require, 'ridge.nope'))"] = '', -- asked, not needed
      ["local function require() end require 'ridge.nope'"] = '',
      ["local t = {} t.require 'ridge.nope'"] = '',
      ["require 'ridge.nope' package.path = 'elsewhere'"] = '',
      ["package.preload['ridge.nope'] = print require 'ridge.nope'"] = '',
      ["local package = {} package.path = 1 require 'ridge.nope'"] = '1 no module ridge.nope',
    } do
      assert.equal(said, check(text), text)
    end
  end)

  it('are checked from the shell', function()
    local folder = folders.new()
    finally(function() folders.remove(folder) end)
    local path = folder .. '/a.lua'
    local function put(text)
      local f = assert(io.open(path, 'wb'))
      f:write(text)
      f:close()
    end
    put("#!/usr/bin/env ridge\nlocal ridge = require 'ridge'\nlocal nn = ridge.nn\n"
      .. 'if arg[1] then\n  ridge.plto.map()\n  nn.Linaer(3)\n  ridge.data.cvs(x)\nend\n')
    local text, status = folders.run('./ridge check ' .. path)
    assert.equal(1, status)
    assert.equal((("a.lua:5: ridge has no plto (did you mean 'plot'?)\n"
      .. "a.lua:6: nn has no Linaer (did you mean 'Linear'?)\n"
      .. "a.lua:7: data has no cvs (did you mean 'csv'?)\na.lua:7: undeclared variable 'x'\n")
      :gsub('a.lua', path)), text)
    put("local d = require 'ridge.dtaa'\nlocal data = require 'ridge.data'\n"
      .. "data.cvs(d, data['cvs'], require 'ridge.mine', require 'ridge.near'.anything)\n"
      .. "return require 'ridge.host', require 'ridge.nn', require('ridge.data').csv\n")
    os.execute(("mkdir '%s/ridge' && touch '%s/ridge/mine.lua'"):format(folder, folder))
    text, status = folders.run('./ridge check ' .. path)
    assert.equal(1, status)
    assert.equal(((("a.lua:1: there is no module 'ridge.dtaa' (did you mean 'ridge.data'?)\n"
      .. "a.lua:3: data has no cvs (did you mean 'csv'?)\n"):rep(1) .. "a.lua:3: data has no cvs "
      .. "(did you mean 'csv'?)\n"):gsub('a.lua', path)), text)
    put 'local x = = 1'
    text, status = folders.run('./ridge check ' .. path)
    assert.equal(1, status)
    assert.matches("a.lua:1: unexpected symbol near '='", text)
    -- an editor's mark of UTF-8, before the shell's line too
    put "\239\187\191#!/usr/bin/env ridge\nlocal ridge = require 'ridge'\nridge.zeross(3)\n"
    text, status = folders.run('./ridge check ' .. path)
    assert.equal(1, status)
    assert.equal(path .. ":3: ridge has no zeross (did you mean 'zeros'?)\n", text)
    -- every recipe and script has all of its names
    text, status = folders.run './ridge check recipes/*.lua scripts/*.lua'
    assert.equal(0, status, text)
    for _, name in ipairs { 'recipes/landscape.lua', 'scripts/made_points.lua' } do
      assert.truthy(text:find(name .. ': every name is there', 1, true), name)
    end
    text, status = folders.run('./ridge check nothing.lua ' .. path)
    assert.equal(1, status)
    assert.truthy(text:find(path .. ':3: ridge has no zeross', 1, true), text)
    assert.matches('ridge check: nothing.lua: No such file', text)
    -- what has no end is not read to its end, an empty file is a file
    text, status = folders.run('./ridge check /dev/null && ./ridge check /dev/zero')
    assert.equal(1, status)
    assert.matches('^/dev/null: every name is there\nridge check: /dev/zero has more than 67108864 '
      .. 'bytes', text)
  end)
end)
