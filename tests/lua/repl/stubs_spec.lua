-- SPDX-License-Identifier: MIT
-- Meta files for editors: each public name and no other, with what each takes.
local argument = require 'ridge.repl.argument'
local folders = dofile 'tests/lua/store/folder.lua'
local help = require 'ridge.repl.help'
local names = require 'ridge.repl.names'
local ridge = require 'ridge'
local stubs = require 'ridge.repl.stubs'
local types = require 'ridge.types'

local KINDS = { any = true, boolean = true, number = true, integer = true, string = true,
  table = true, ['function'] = true, ['nil'] = true, thread = true, userdata = true }

describe('stubs', function()
  local files, by = stubs.files(ridge), {}
  for _, file in ipairs(files) do by[file.path] = file.text end

  it('hold each public name and no other', function()
    local held = {}
    local function note(table_of, prefix)
      for name in pairs(table_of) do held[#held + 1] = prefix .. name end
    end
    local loaded = {}
    for path, text in pairs(by) do
      if path:find '%.lua$' then loaded[path] = assert(loadstring(text, '@' .. path))() end
    end
    note(loaded['library/ridge.lua'], 'ridge.')
    for path, made in pairs(loaded) do
      local module = path:match '^library/ridge/(%w+)%.lua$'
      if module and module ~= 'values' then note(made, 'ridge.' .. module .. '.') end
    end
    table.sort(held)
    assert.same(names.all(ridge), held)
  end)

  it('have the options of every function that takes some', function()
    local n, chosen = 0, 0
    for _, name in ipairs(names.all(ridge)) do
      local f = ridge
      for part in name:gmatch '%.([%w_]+)' do f = f[part] end
      if type(f) == 'table' and rawget(f, '__name') then f = help.member(f, 'init') end
      local spec = type(f) == 'function' and argument.spec_of(f)
      if spec and next(spec) then
        local path = name:match '^ridge%.([%w_]+)%.'
        local text = by[path and ('library/ridge/%s.lua'):format(path) or 'library/ridge.lua']
        local class = text:match('%-%-%-@class ' .. name:gsub('%.', '%%.') .. '%.Options\n(.-)\n\n')
        assert.is_string(class, name)
        for key, rule in pairs(spec) do
          if type(key) == 'string' and key:find '^[%a_][%w_]*$' then
            n = n + 1
            local mark = rule.required and ' ' or '? '
            assert.truthy((class .. '\n'):find('---@field ' .. key .. mark, 1, true),
              name .. ' ' .. key)
            if rule.choices and rule[1] == 'string' then
              local words = "'" .. table.concat(rule.choices, "'|'") .. "'"
              chosen = chosen + 1
              assert.truthy(class:find(key .. mark .. words, 1, true), name .. ' ' .. key)
            end
          end
        end
      end
    end
    assert.is_true(n > 200)
    assert.is_true(chosen > 5)
  end)

  it('say which parameters may be left out', function()
    local text = by['library/ridge.lua']
    for _, line in ipairs { '---@param wait? boolean|nil only when', '---@param path string',
      '---@param ... any its arguments' } do
      assert.truthy(text:find('\n' .. line, 1, true), line)
    end
    assert.is_nil(text:find('@param ...? ', 1, true))
  end)

  it('say what a tensor can do, and other values', function()
    local text, seen = by['library/ridge/values.lua'], {}
    for _, entry in ipairs(types.all()) do
      local owner = entry.name:gsub('[^%w_]', '_')
      seen[owner] = true
      for name in pairs(entry.methods) do
        if name:find '^[%a_][%w_]*$' and name ~= 'repeat' and name ~= 'end' and name ~= 'and'
          and name ~= 'or' and name ~= 'not' then
          assert.truthy(text:find(('function %s:%s('):format(owner, name), 1, true), name)
        end
      end
    end
    assert.is_true(seen.Tensor and seen.Module)
    assert.truthy(text:find('---sum over axes\n---@param axes number|table', 1, true))
    assert.truthy(text:find('---@operator add(ridge.Tensor|number): ridge.Tensor', 1, true))
  end)

  it('are annotations that LuaLS reads: a name, a type it knows, text', function()
    local classes = {}
    for _, text in pairs(by) do
      for class in text:gmatch '%-%-%-@class ([%w_.]+)' do classes[class] = true end
    end
    -- a type at the beginning of a text: words and quoted ones between bars
    local function check(text, line)
      repeat
        local quoted = text:match "^'[^']*'()"
        local word, behind = text:match '^([%w_.]+)%[?%]?()'
        local known = word and (KINDS[word] or classes[word])
        assert.is_true(quoted ~= nil or known == true, line)
        text = text:sub(quoted or behind)
        local more = text:sub(1, 1) == '|'
        text = more and text:sub(2) or text
      until not more
      assert.truthy(text == '' or text:find '^ ', line)
    end
    for path, text in pairs(by) do
      assert.is_true(#text < 400000, path) -- above, a server skips a file
      for line in text:gmatch '[^\n]+' do
        local tag, rest = line:match '^%-%-%-@(%w+) ?(.*)$'
        if tag == 'param' or tag == 'field' then
          rest = rest:gsub('^%[string%]', 'string') -- any field, by a string
          check(assert(rest:match '^[%w_.]+%??%s(.+)', line), line)
        elseif tag == 'return' or tag == 'type' then
          check(rest, line)
        elseif tag then
          assert.truthy(tag == 'class' or tag == 'meta' or tag == 'overload' or tag == 'operator',
            line)
        end
      end
    end
    assert.equal('{"diagnostics.globals":["arg"],"runtime.version":"LuaJIT",'
      .. '"workspace.library":["library"]}\n', by['.luarc.json'])
  end)

  it('say what the objects of a class can do, and that modules are called', function()
    local main, nn = by['library/ridge.lua'], by['library/ridge/nn.lua']
    for _, name in ipairs { 'fit', 'resume', 'status' } do
      assert.truthy(main:match('%-%-%-@class ridge%.Trainer\n(.-)\n\n'):find(
        '---@field ' .. name .. ' function', 1, true), name)
    end
    assert.truthy(nn:find('---@class ridge.nn.Linear: ridge.Module\n'
      .. '---@overload fun(...: any): any', 1, true))
    assert.truthy(nn:match('%-%-%-@class ridge%.nn%.SKLinear%.Class\n(.-)\n\n'):find(
      '---@field from function', 1, true))
    assert.is_nil(nn:find('---@field init ', 1, true))
    assert.is_nil(nn:find('---@field _', 1, true))
  end)

  it('let LuaLS find nothing wrong with the recipes', function()
    if os.execute 'command -v lua-language-server >/dev/null 2>&1' ~= 0 then
      return pending 'lua-language-server is not found'
    end
    local folder = folders.new()
    finally(function() folders.remove(folder) end)
    for _, file in ipairs(files) do
      os.execute(("mkdir -p '%s/%s'"):format(folder, file.path:match '^(.*)/' or '.'))
      folders.put(folder .. '/' .. file.path, file.text)
    end
    os.execute(("cp -r recipes '%s'"):format(folder))
    local function checked()
      local out = folder .. '/said'
      local status = os.execute(("lua-language-server --check '%s' --checklevel=Warning --logpath="
        .. "'%s/log' >'%s' 2>&1"):format(folder, folder, out))
      return status == 0, folders.get(out)
    end
    local clean, said = checked()
    assert.is_true(clean, said)
    -- and that it looks: a recipe with a name that is not there
    folders.put(folder .. '/recipes/wrong.lua', "local ridge = require 'ridge'\nridge.zork(1)\n")
    clean, said = checked()
    assert.is_false(clean)
    assert.matches('zork', said)
  end)

  it('are written below a folder, beside settings that stay', function()
    local folder = folders.new()
    finally(function() folders.remove(folder) end)
    local plain = require 'ridge.plain'
    local before, said = { plain.print, plain.note }, {}
    plain.print = function(...) -- luacheck: ignore 122
      said[#said + 1] = table.concat { ... }
    end
    plain.note = plain.print -- luacheck: ignore 122
    local main = require('ridge.cli.stubs').main
    local first = main { folder .. '/new/' }
    folders.put(folder .. '/new/.luarc.json', 'mine')
    folders.put(folder .. '/new/library/ridge.lua', 'old')
    local again = main { folder .. '/new' }
    folders.put(folder .. '/file', '')
    local wrong = main { folder .. '/file' }
    local none = main {}
    plain.print, plain.note = before[1], before[2] -- luacheck: ignore 122
    assert.same({ 0, 0, 1, 1 }, { first, again, wrong, none })
    assert.equal('mine', folders.get(folder .. '/new/.luarc.json'))
    assert.equal(by['library/ridge.lua'], folders.get(folder .. '/new/library/ridge.lua'))
    assert.matches(('^%d files\n'):format(#files), (said[1]:gsub('^.*: ', '')))
    assert.matches('.luarc.json is there and stays', said[3], 1, true)
  end)
end)
