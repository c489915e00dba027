-- SPDX-License-Identifier: MIT
--- `ridge docs [WORD]`: the documentation, without a network.

local colour = require 'ridge.show.colour'
local columns = require 'ridge.show.columns'
local markdown = require 'ridge.docs.markdown'
local pages = require 'ridge.docs.pages'
local search = require 'ridge.docs.search'
local stored = require 'ridge.cli.stored'

local M = {}

M.summary = 'the documentation, offline: ridge docs first-hour'
M.usage = 'ridge docs [WORD ...]'

local SPEC = {
  about = [[
Without a word: which pages there are. With words: the page or the heading that is called so; else
the places that hold all of them, titles first. In a terminal it is read through PAGER, or less.

    ridge docs first-hour
    ridge docs 'grade d'
    ridge docs ridge.nn.Linear
    ridge docs --find interval]],
  { 'find', false, 'list every place that holds the words, also where a page is called so' },
  { 'markdown', '', 'write all pages as Markdown files below this folder' },
  rest = 'WORD',
}

--- All pages: the written ones, then the reference, made now.
---@return ridge.docs.Page[] pages
function M.all()
  local list = pages.written()
  for _, made in ipairs { require('ridge.cli.reference').pages(),
      require('ridge.docs.prompt').pages(), require('ridge.docs.stored').pages(),
      require('ridge.docs.functions').pages(require 'ridge') } do
    for _, page in ipairs(made) do list[#list + 1] = page end
  end
  return list
end

-- The written pages by kind, and what the reference has.
local function contents(list)
  local lines = {}
  for _, kind in ipairs(pages.KINDS) do
    local rows = {}
    for _, page in ipairs(list) do
      if page.kind == kind[1] then
        rows[#rows + 1] = ('| `%s` | %s |'):format(page.name:match '/(.*)$', page.title)
      end
    end
    lines[#lines + 1] = '## ' .. kind[2] .. '\n'
    lines[#lines + 1] = '| | |\n|---|---|\n' .. table.concat(rows, '\n') .. '\n'
  end
  return ('# ridge %s\n\n`ridge docs PAGE` shows a page, `ridge docs WORD` finds one, '
    .. '`ridge help NAME` says what a name is.\n\n%s'):format(require('ridge').version(),
    table.concat(lines, '\n'))
end

local function found_text(found, words)
  local lines, width = {}, columns.terminal()
  for i, each in ipairs(found) do
    if i > 40 then
      lines[#lines + 1] = ('%d more'):format(#found - 40)
      break
    end
    local place = each.page.name .. (each.section and each.section.level > 1
      and ': ' .. each.section.title or '')
    lines[#lines + 1] = colour.paint('bold', place)
    lines[#lines + 1] = '  ' .. columns.cut(each.line, math.min(width, 100) - 2)
  end
  return ("'%s' is in:\n\n%s\n\nridge docs PAGE shows one\n"):format(words,
    table.concat(lines, '\n'))
end

local function write_all(list, folder)
  local place, output = require 'ridge.store.place', require 'ridge.ffi.output'
  place.make_folder(folder)
  for _, kind in ipairs(pages.KINDS) do place.make_folder(folder .. '/' .. kind[1]) end
  for _, page in ipairs(list) do
    output.write(('%s/%s.md'):format(folder, page.name), 'docs', page.text)
  end
end

--- Show pages.
---@param argv string[]
---@return integer status 1 where nothing holds the words
function M.main(argv)
  return stored.run('docs', SPEC, argv, nil, function(opt, rest)
    local list, words = M.all(), table.concat(rest, ' ')
    if opt.markdown ~= '' then
      write_all(list, opt.markdown)
      return 0
    end
    local pager = require 'ridge.cli.pager'
    colour.enabled = colour.wanted(require('ridge.host').is_terminal(1))
    if words == '' then
      if opt.find then return stored.fail('docs', '--find wants a word') end
      pager.show(markdown.text(contents(list)) .. '\n')
      return 0
    end
    local page, section
    if not opt.find then page, section = search.named(list, words) end
    local found = page and {} or search.find(list, words)
    -- one page whose title holds them is what was meant
    if not page and not opt.find and found[1] and not found[1].section
        and (not found[2] or found[2].section) then
      page = found[1].page
    end
    if section then
      pager.show(markdown.text(('## %s\n\n%s'):format(section.title, section.text), nil, page.kind)
        .. ('\n\n%s\n'):format(colour.paint('dim', 'of the page ' .. page.name)))
    elseif page then
      pager.show(markdown.text(page.text, nil, page.kind) .. '\n')
    elseif found[1] then
      pager.show(found_text(found, words))
    else
      return stored.fail('docs', ("no page holds '%s'%s"):format(words, search.hint(list, words)))
    end
    return 0
  end)
end

return M
