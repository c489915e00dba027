-- SPDX-License-Identifier: MIT
-- `ridge docs`: every page is found and shown, and the reference names all there is.

require 'ridge'
local flags = require 'ridge.measure.flags'
local folders = dofile 'tests/lua/store/folder.lua'
local markdown = require 'ridge.docs.markdown'
local names = require 'ridge.repl.names'
local pages = require 'ridge.docs.pages'
local search = require 'ridge.docs.search'

-- build/ridge as somebody would type it.
local function ridge(words) return folders.run('build/ridge ' .. words) end

describe('the documentation', function()
  local list, by_name, folder = {}, {}, nil
  setup(function()
    folder = folders.new()
    local _, status = ridge('docs --markdown ' .. folder .. '/pages')
    assert.equal(0, status)
    local pipe = io.popen(('cd %s/pages && ls */*.md'):format(folder))
    for path in pipe:lines() do
      local name = path:match '^(.*)%.md$'
      list[#list + 1] = pages.page(name, folders.get(folder .. '/pages/' .. path))
      by_name[name] = list[#list]
    end
    pipe:close()
  end)
  teardown(function() folders.remove(folder) end)

  it('has pages of four kinds, each with a title and a first sentence', function()
    local kinds, titles = {}, {}
    for _, page in ipairs(list) do
      kinds[page.kind] = (kinds[page.kind] or 0) + 1
      assert.is_nil(titles[page.title], page.title)
      titles[page.title] = true
      assert.matches('^# ' .. page.title:gsub('%p', '%%%0') .. '\n', page.text)
      assert.is_true(#page.about > 10 and not page.about:find '\n', page.name)
    end
    assert.equal(4, kinds.tutorial)
    assert.is_true(kinds.howto >= 20)
    assert.is_true(kinds.why >= 10 and kinds.reference >= 20)
  end)

  it('names every public name, command, option, flag, variable and status', function()
    local headings = {}
    for _, page in ipairs(list) do
      for _, section in ipairs(pages.sections(page)) do
        if page.kind == 'reference' then headings[section.title] = section.text end
      end
    end
    for _, name in ipairs(names.all(require 'ridge')) do
      assert.is_truthy(headings[name] or by_name['reference/' .. name], name)
    end
    local n = 0
    for name, flag in ridge([[-e "for _, c in ipairs(require('ridge.cli.described').all()) do
        for _, o in ipairs(c.options) do print(c.name, o.flag) end end"]]):gmatch '(%S+)\t(%S+)' do
      local text = assert(headings['ridge ' .. name], name)
      n = n + 1
      assert.is_truthy(name == 'help' or text:find('`' .. flag, 1, true), name .. flag)
    end
    assert.is_true(n > 200)
    for _, name in ipairs(flags.names()) do
      assert.is_truthy(by_name['reference/flags'].text:find('`' .. name .. '`', 1, true), name)
    end
    for _, variable in ipairs((require('ridge.variables').all())) do
      assert.is_truthy(by_name['reference/environment'].text:find(variable.name, 1, true))
    end
    for _, status in ipairs(require 'ridge.cli.statuses') do
      local row = '| ' .. status[1] .. ' |'
      assert.is_truthy(by_name['reference/exit-status'].text:find(row, 1, true))
    end
    for name in ('machine attempt timing samples metric comparison choice'):gmatch '%a+' do
      assert.is_truthy(headings[name], name)
    end
    assert.is_truthy(headings['ridge.nn.Linear']:find('`bias`', 1, true))
    -- methods of tensors with parameters of their own have sections, the others rows of a table
    local methods = by_name['reference/tensor'].text
    assert.is_truthy(headings['x:add']:find('x:add(y)', 1, true))
    assert.is_nil(methods:find('| `:add` |', 1, true))
    assert.is_truthy(methods:find('| `:add_` |', 1, true))
  end)

  it('has links to pages that are there', function()
    for _, page in ipairs(list) do
      for target in page.text:gmatch '%]%(([^)]+)%.md%)' do
        local up = target:match '^%.%./(.*)$'
        local name = up or page.kind .. '/' .. target
        assert.is_truthy(by_name[name], page.name .. ' -> ' .. target)
      end
    end
  end)

  it('is taken apart at its headings, and not at what code has', function()
    local page = pages.page('why/a', '# A\n\nFirst. More.\n\n## B `c`\n\n```\n## no\n# no\n```\n\n'
      .. '### D\n\ne\n')
    local titles = {}
    for i, section in ipairs(pages.sections(page)) do titles[i] = section.level .. section.title end
    assert.same({ '1A', '2B c', '3D' }, titles)
    assert.matches('## no\n# no', pages.sections(page)[2].text)
    assert.equal('First.', page.about)
  end)

  it('is found by name, by heading, by title, by text', function()
    for _, each in ipairs { { 'first-hour', 'tutorial/first-hour' }, { 'why/passes', 'why/passes' },
        { 'The First Hour', 'tutorial/first-hour' }, { 'first hour', 'tutorial/first-hour' },
        { 'docs/howto/int8.md', 'howto/int8' }, { 'exit status', 'reference/exit-status' } } do
      local page, section = search.named(list, each[1])
      assert.equal(each[2], page and page.name, each[1])
      assert.is_nil(section)
    end
    local page, section = search.named(list, 'ridge.randn')
    assert.equal('reference/ridge', page.name)
    assert.matches('Normal random numbers', section.text)
    assert.is_nil(search.named(list, 'no such page'))
    -- by its last part, where one thing is called so; of several all come first
    for word, title in pairs { linear = 'ridge.nn.Linear', randn = 'ridge.randn' } do
      assert.equal(title, select(2, search.named(list, word)).title)
    end
    assert.is_nil(search.named(list, 'sweep'))
    local called = {}
    for i, each in ipairs(search.find(list, 'sweep')) do
      called[each.section and each.section.title or each.page.name] = i
    end
    assert.is_true(called['ridge sweep'] <= 4 and called['ridge.sweep'] <= 4)
    assert.matches("did you mean 'Linear'", search.hint(list, 'linaer'))
    local found = search.find(list, 'GRADE says')
    assert.equal('why/grades', found[1].page.name) -- by its title, before all texts
    assert.is_nil(found[1].section)
    found = search.find({ pages.page('why/a', '# A\n\nOf zork.\n'),
      pages.page('why/b', '# B\n\nText.\n\n## A zork\n\nx\n'),
      pages.page('why/c', '# Zork\n\nx\n') }, 'zork')
    assert.same({ 'why/c', 'why/b', 'why/a' }, { found[1].page.name, found[2].page.name,
      found[3].page.name })
    found = search.find(list, 'hypervisor')
    assert.is_true(#found >= 1 and found[1].line:find 'hypervisor' ~= nil)
    assert.same({}, search.find(list, 'zorkmid'))
    assert.same({}, search.find(list, ' '))
    assert.equal(" (did you mean 'first-hour'?)", search.hint(list, 'frist-hour'))
  end)

  it('is text in any width: nothing is lost, no line is wider but code', function()
    local KINDS, links = { tutorial = true, howto = true, reference = true, why = true }, 0
    for _, page in ipairs(list) do
      for _, width in ipairs { 40, 80 } do
        local text = markdown.text(page.text, width, page.kind)
        for word in page.about:gmatch '%f[%w]%w+' do
          assert.is_truthy(text:find(word, 1, true), page.name .. ': ' .. word)
        end
        assert.is_nil(text:find '```', 1, true)
      end
      -- a link is the name that `ridge docs` knows
      local text = markdown.text(page.text, 80, page.kind)
      assert.is_nil(text:find '%(%.%./', page.name)
      for name in text:gmatch '%((%l+/[%w_.-]+)%)' do
        local known = not KINDS[name:match '^%l+'] or by_name[name] ~= nil
        links = links + (by_name[name] and 1 or 0)
        assert.is_true(known, page.name .. ': ' .. name)
      end
    end
    assert.is_true(links > 10, links)
    assert.equal('a paragraph\nin lines\n\n* one two\n  three\n\nname  what it is, in words, as\n'
      .. "      long as it takes\nx     y | z\n\n    code  stays as it is, whatever its width",
      markdown.text('a\nparagraph in lines\n\n* one two three\n\n| name | what it is, in words, '
        .. 'as long as it takes |\n|---|---|\n| `x` | y \\| z |\n\n```\ncode  stays as it is, '
        .. 'whatever its width\n```\n', 11))
    assert.equal('see Grades (why/grades) and\nhere <https://x.org>', markdown.text(
      'see [Grades](grades.md) and [here](https://x.org)', 28, 'why'))
  end)

  it('is shown by the program, which needs no file of the tree', function()
    local command = ("cd / && env -u RIDGE_LUA '%s/build/ridge' docs "):format(
      io.popen('pwd'):read '*l')
    local text, status = folders.run(command)
    assert.equal(0, status)
    assert.matches('first%-hour +The first hour\n', text)
    assert.matches('ridge%.nn +ridge%.nn\n', text)
    text, status = folders.run(command .. 'grades')
    assert.equal(0, status)
    assert.matches('^WHAT A GRADE SAYS\n\n', text)
    assert.is_nil(text:find '\27')
    text, status = folders.run(command .. 'ridge.randn')
    assert.equal(0, status)
    assert.matches('of the page reference/ridge\n$', text)
    text, status = folders.run(command .. 'hypervisor')
    assert.equal(0, status)
    assert.matches("^'hypervisor' is in:\n\n", text)
    text, status = folders.run(command .. '--find first-hour')
    assert.equal(0, status)
    assert.matches('tutorial/first%-hour', text)
    text, status = folders.run(command .. 'frist-hour')
    assert.equal(1, status)
    assert.matches("no page holds 'frist%-hour' %(did you mean 'first%-hour'%?%)", text)
    text, status = folders.run(command .. '--find')
    assert.equal(1, status)
    assert.matches('wants a word', text)
  end)

  it('goes through a pager in a terminal, and only there', function()
    local pager = folder .. '/pager'
    folders.put(pager, '#!/bin/sh\nsed "s/^/paged: /"\n')
    os.execute('chmod +x ' .. pager)
    local function typed(env)
      return (folders.run(("%s script -qec 'build/ridge docs grades' /dev/null </dev/null")
        :format(env)):gsub('\r', ''))
    end
    if folders.run 'command -v script' ~= '' then
      assert.matches('paged: .*WHAT A GRADE SAYS', typed('TERM=xterm PAGER=' .. pager))
      assert.is_nil(typed('TERM=xterm PAGER=cat'):find 'paged')
      -- one that is left at once is no error
      -- (a page that a pipe does not hold)
      assert.is_true(#by_name['reference/ridge'].text > 70000)
      local _, status = folders.run(
        "PAGER=true script -qec 'build/ridge docs reference/ridge' /dev/null")
      assert.equal(0, status)
    end
    assert.is_nil(ridge('docs grades'):find 'paged')
  end)
end)
