// The look of plots: what gnuplot draws in one colour is legible on light and on dark ground.

#include <gtest/gtest.h>

#include <regex>
#include <stdexcept>
#include <string>

#include "common/plots/look.h"

namespace ladder::plots {
namespace {

const std::string kDrawn = R"(<svg viewBox="0 0 1000 520" xmlns="http://www.w3.org/2000/svg">
<title>Gnuplot</title>
<desc>Produced by GNUPLOT</desc>
<path stroke='rgb(128, 136, 144)' d='M1,1 h2'/><path stroke='rgb(255, 250,  10)' d='M1,1 h2'/>
<path color="black" fill="white" stroke="gray" d="M2,2 h2"/>
<g fill="#101820" font-family="Arial"><text>words</text></g>
</svg>)";

/// The colours that a style sheet gives to panel and elements, in the light or in the dark.
std::string sheet(const std::string& svg, bool dark) {
    const std::size_t begin = svg.find("<style>"), middle = svg.find("@media", begin),
                      end = svg.find("</style>", begin);
    return dark ? svg.substr(middle, end - middle) : svg.substr(begin, middle - begin);
}

TEST(Look, EveryColourStandsOutFromItsGround) {
    const std::string svg = in_the_look_of_the_book(kDrawn, "A plot");
    for (const bool dark : {false, true}) {
        const std::string css = sheet(svg, dark);
        std::smatch panel;
        ASSERT_TRUE(std::regex_search(css, panel, std::regex(R"(\.panel\{fill:(#[0-9a-f]{6}))"))) << css;
        int colours = 0;
        const std::regex rule(R"(\[\w+="(?!white)[^\]]*\]\{(?:stroke|fill|color):(#[0-9a-f]{6})\})");
        for (auto it = std::sregex_iterator(css.begin(), css.end(), rule); it != std::sregex_iterator();
             ++it, ++colours)
            EXPECT_GE(contrast((*it)[1], panel[1]), kContrast) << (*it)[0];
        EXPECT_EQ(colours, 5) << css;
    }
}

TEST(Look, WhatStandsOutAlreadyStaysAsItIs) {
    const std::string svg = in_the_look_of_the_book(kDrawn, "A plot");
    EXPECT_NE(sheet(svg, false).find("[fill=\"#101820\"]{fill:#101820}"), std::string::npos) << svg;
    EXPECT_NE(sheet(svg, true).find("{stroke:#fffa0a}"), std::string::npos) << svg;
}

TEST(Look, BlackAndWhiteAreInkAndPaper) {
    const std::string css = sheet(in_the_look_of_the_book(kDrawn, "A plot"), true);
    EXPECT_NE(css.find("[color=\"black\"]{color:#e6eaee}"), std::string::npos) << css;
    EXPECT_NE(css.find("[fill=\"white\"]{fill:#1a1f24}"), std::string::npos) << css;
}

TEST(Look, TheTitleIsWhatAScreenReaderSays) {
    const std::string svg = in_the_look_of_the_book(kDrawn, "Reads & <writes>");
    EXPECT_NE(svg.find("<title>Reads &amp; &lt;writes></title>"), std::string::npos) << svg;
    EXPECT_EQ(svg.find("Gnuplot"), std::string::npos);
    EXPECT_EQ(svg.find("GNUPLOT"), std::string::npos);
    EXPECT_LT(svg.find("class=\"panel\""), svg.find("<path")) << "the ground lies below what is drawn";
}

TEST(Look, ContrastAsWCAGHasIt) {
    EXPECT_NEAR(contrast("#000000", "#ffffff"), 21, 1e-6);
    EXPECT_NEAR(contrast("#777777", "rgb(255, 255, 255)"), 4.48, 0.01);
}

TEST(Look, RefusesWhatIsNoPlot) {
    EXPECT_THROW(in_the_look_of_the_book("<svg></svg>", "x"), std::invalid_argument);
    EXPECT_THROW(contrast("red", "#ffffff"), std::invalid_argument);
}

}  // namespace
}  // namespace ladder::plots
