-- SPDX-License-Identifier: MIT
-- What shells complete, and the manual page: from the tables that the commands read.

local canonical = require 'ridge.store.canonical'
local folders = dofile 'tests/lua/store/folder.lua'

local function run(command)
  local text, status = folders.run(command)
  assert.equal(0, status, text)
  return text
end

-- The commands are found in the program only.
local described = canonical.decode(run([[./ridge -e "local d = require 'ridge.cli.described'
  io.write(require('ridge.store.canonical').encode { all = d.all(), flags = d.flags() })"]]))

local function found(program) return select(2, folders.run('command -v ' .. program)) == 0 end

-- What bash offers for a line, whose last word is being typed.
local function offered(script, line)
  local words = {}
  for word in (line .. ' '):gmatch '(%S*) ' do words[#words + 1] = "'" .. word .. "'" end
  local text = run(([[bash -c 'PATH=$PWD:$PATH; . %s; COMP_WORDS=(%s); COMP_CWORD=%d; _ridge
    printf "%%s\n" "${COMPREPLY[@]}"']]):format(script, table.concat(words, ' '):gsub("'", '"'),
    #words - 1))
  local set = {}
  for word in text:gmatch '[^\n]+' do set[word] = true end
  return set
end

describe('completion', function()
  local folder = folders.new()
  local path = {}
  for _, shell in ipairs { 'bash', 'zsh', 'fish' } do
    path[shell] = folder .. '/' .. shell
    run(('./ridge completion %s >%s'):format(shell, path[shell]))
  end
  teardown(function() folders.remove(folder) end)

  it('offers commands, options, values, recipes and files in bash', function()
    local first = offered(path.bash, 'ridge s')
    assert.is_true(first.sweep and first.sweeps and first.show and first.scripts) -- a folder
    assert.is_nil(first.export)
    assert.same({ ['--samples'] = true }, offered(path.bash, 'ridge --seed 3 export --sa'))
    -- what an option takes is no command
    for _, before in ipairs { '-e sweep', '--threads sweep', '--device sweep --no-jit' } do
      assert.same({ export = true }, offered(path.bash, ('ridge %s expo'):format(before)))
    end
    assert.same({ csv = true }, offered(path.bash, 'ridge export widths --as cs'))
    assert.same({ bar = true }, offered(path.bash, 'ridge sweep --progress b'))
    assert.same({ never = true }, offered(path.bash, 'ridge sweep --isolate n'))
    assert.is_nil(offered(path.bash, 'ridge export --progress b').bar) -- another command's
    assert.is_true(offered(path.bash, 'ridge run landsc').landscape)
    assert.is_nil(offered(path.bash, 'ridge run -').landscape)
    assert.is_true(offered(path.bash, 'ridge docs first')['first-hour'])
    assert.is_true(offered(path.bash, 'ridge docs ')['ridge.nn'])
    assert.same({ pack = true, publish = true }, offered(path.bash, 'ridge db p'))
    assert.is_true(offered(path.bash, 'ridge db publish s').scripts) -- behind it are files
    assert.is_true(offered(path.bash, 'ridge onnx ').optimize)
    assert.same({ zsh = true }, offered(path.bash, 'ridge completion z'))
  end)

  it('offers the same first words in zsh and fish', function()
    local text = {}
    for shell, at in pairs(path) do text[shell] = run('cat ' .. at) end
    for name, words in pairs { docs = '_ridge_pages', run = '_ridge_recipes', best =
        '_ridge_sweeps', db = '(info check backup migrate pack publish)',
        submit = '(slurm k8s pbs sge parallel)' } do
      local own = text.zsh:match('\n        ' .. name .. '%) (_arguments.-) ;;')
      assert.matches(words .. "'", own, 1, true)
    end
    assert.truthy(text.zsh:find '\n_ridge_pages%(%) ')
    assert.matches("from db' -a 'info check backup migrate pack publish'\n", text.fish, 1, true)
    assert.matches("from docs' -a '(ridge docs ", text.fish, 1, true)
  end)

  it('has each command and option in each shell', function()
    local text = {}
    for shell, at in pairs(path) do text[shell] = run('cat ' .. at) end
    local first = ' ' .. text.bash:match "\n    ''%) words='(.-)' ;;" .. ' '
    for _, flag in ipairs(described.flags) do
      assert.truthy(first:find(' ' .. flag.flag .. ' ', 1, true), flag.flag)
    end
    for _, command in ipairs(described.all) do
      assert.truthy(first:find(' ' .. command.name .. ' ', 1, true), command.name)
    end
    for _, command in ipairs(described.all) do
      local name = command.name
      local bash = assert(text.bash:match(('\n    %s%%) words=(%%b\'\')'):format(
        (name:gsub('%-', '%%-')))), name)
      local does = command.summary:gsub('[%[%]:\\]', '\\%0'):gsub("'", "'\\''")
      assert.truthy(text.zsh:find(("\n    '%s:%s'\n"):format(name, does), 1, true), name)
      assert.truthy(text.fish:find((" -a %s -d '"):format(name), 1, true), name)
      for _, option in ipairs(command.options) do
        -- one letter is said once: -o, and not -o, -o
        assert.is_true(option.short ~= option.flag:match '^%S+', option.flag)
        assert.truthy((bash:gsub("'", ' ')):find(' ' .. option.flag .. ' ', 1, true), option.flag)
        assert.truthy(text.zsh:find(option.flag .. '[', 1, true)
          or text.zsh:find(option.flag .. '}', 1, true)
          or text.zsh:find(',' .. option.short .. '}', 1, true), option.flag)
        local long = option.flag:match '^%-%-(.*)'
        assert.truthy(text.fish:find(("from %s' %s%s "):format(name, long and '-l ' or '-s ',
          long or option.flag:sub(2)), 1, true), name .. option.flag)
        -- and what it takes: words, a file, a folder, something, nothing
        local behind = text.fish:match(("from %s' %s%s([^\n]*)"):format((name:gsub('%-', '%%-')),
          long and '%-l ' or '%-s ', ((long or option.flag:sub(2)):gsub('%-', '%%-'))
          .. '%f[%s\n]')):gsub(" %-d '.*", '')
        assert.equal(option.choices and 'words' or option.takes and 'something' or 'nothing',
          behind:find ' %-x %-a ' and 'words' or behind:find ' %-r$' and 'something' or 'nothing',
          name .. option.flag)
        local zsh = text.zsh:match('\n        ' .. name:gsub('%-', '%%-') .. '%) _arguments.- ;;')
        local text_of = '[' .. option.does:gsub('[%[%]:\\]', '\\%0'):gsub("'", "'\\''") .. ']'
        local marks = option.choices and ':value:(' .. option.choices[1]
          or not option.takes and "'" or option.writes == 'folder' and ":folder:_files -/'"
          or option.writes and ":file:_files'" or ":value: '"
        assert.truthy(zsh:find(text_of .. marks, 1, true), name .. option.flag .. marks)
      end
    end
  end)

  it('is a script of that shell, where it is there', function()
    for shell, at in pairs(path) do
      if found(shell) then run(('%s -n %s'):format(shell, at)) end
    end
  end)

  it('has what commands read, and does not run them', function()
    local by = {}
    for _, command in ipairs(described.all) do
      by[command.name] = command
      assert.is_true(#command.options >= 1, command.name)
    end
    local as
    for _, option in ipairs(by.export.options) do as = option.flag == '--as' and option or as end
    assert.same({ flag = '--as', takes = 'TEXT', default = 'csv', does = 'form',
      choices = { 'csv', 'json', 'jsonl', 'md', 'table', 'tensorboard' } }, as)
    assert.equal('-P', by.sweep.options[1].short)
  end)

  it('refuses a shell that it does not know', function()
    for _, word in ipairs { '', 'tcsh', 'bash zsh' } do
      local text, status = folders.run('./ridge completion ' .. word)
      assert.equal(1, status)
      assert.matches('ridge completion: ', text)
    end
  end)
end)

describe('the manual page', function()
  it('has each flag, command, option and variable, and is well formed', function()
    local text = run './ridge help --man'
    local typed = text:gsub('\\%-', '-'):gsub('\\f[BIR]', '')
    for _, flag in ipairs(described.flags) do assert.truthy(typed:find(flag.flag, 1, true)) end
    local at = 1
    for _, command in ipairs(described.all) do
      at = assert(typed:find(('.SS "%s"'):format(command.name), at, true), command.name)
      if command.name ~= 'help' then
        for _, option in ipairs(command.options) do
          assert.truthy(typed:find(option.flag, at, true), command.name .. option.flag)
        end
      end
    end
    for _, variable in ipairs(require('ridge.variables').all()) do
      assert.truthy(typed:find(variable.name, at, true), variable.name)
    end
    for line in text:gmatch '[^\n]+' do -- no request but those that were meant
      assert.is_true(not line:find "^[.']" or line:find '^%.[STPnf][HSPfi]' ~= nil, line)
    end
    if found 'mandoc' then assert.equal('', run './ridge help --man | mandoc -Tlint -W warning') end
  end)
end)
