//! Routes, shapes, and every way to be refused.

mod support;

use boxwork_server::problem::KINDS;
use boxwork_server::{Config, Limits};
use serde_json::json;
use support::client::raw;
use support::{Fake, get, limits, local, post, request, serving, started};

#[test]
fn stores_and_objects_have_their_shapes() {
    let (server, _) = started();
    let at = server.address();
    let stores = get(at, "/v1/stores").json();
    let store = &stores["stores"][0];
    assert_eq!(store["name"], "s");
    assert_eq!(store["objects"], 40);
    assert_eq!(store["originals"], false, "the server was not told to give them");
    assert_eq!(store["limits"]["k"], 1000);
    assert_eq!(&get(at, "/v1/stores/s").json(), store);
    let page = get(at, "/v1/stores/s/objects?class=dogs&after=1&limit=2").json();
    let expected = json!({"id": 4, "name": "dogs/004.jpg", "class": "dogs", "width": 4, "height": 3});
    assert_eq!(page["objects"][0], expected);
    assert_eq!((&page["next"], page["objects"].as_array().unwrap().len()), (&json!(7), 2));
    assert_eq!(get(at, "/v1/stores/s/objects?prefix=owls/0&after=37").json()["next"], json!(null));
    assert_eq!(get(at, "/v1/stores/s/objects/4").json()["centroids"], 1);
    for (path, status) in [
        ("/v1/stores/t", 404),
        ("/v1/stores/s/objects/40", 404),
        ("/v1/stores/s/objects/x", 400),
        ("/v1/stores/s/objects/-1", 400),
        ("/v1/stores/s/objects?limit=501", 422),
        ("/v1/stores/s/objects?limit=x", 400),
        ("/v1/stores/s/objects?colour=red", 400),
        ("/v1/stores/s/objects/4/image", 404),
        ("/nothing", 404),
    ] {
        let answer = get(at, path);
        assert_eq!(answer.status, status, "{path}");
        answer.problem();
    }
    let changed = request(at, "POST", "/v1/stores/s/reload", &[], Some(b""));
    assert_eq!(changed.json()["fingerprint"], "first");
    let method = request(at, "PUT", "/v1/stores", &[], Some(b""));
    assert_eq!((method.status, method.problem().as_str()), (405, "method"));
}

#[test]
fn a_search_takes_objects_signatures_and_pictures() {
    let (server, _) = started();
    let at = server.address();
    let search = |body: serde_json::Value| post(at, "/v1/stores/s/search", &body);
    let found = search(json!({"query": {"id": 5}, "k": 3})).json();
    assert_eq!(found["query"], json!({"id": 5, "name": "owls/005.jpg"}));
    assert_eq!(found["fingerprint"], "first");
    let ids = |found: &serde_json::Value| {
        found["hits"].as_array().unwrap().iter().map(|hit| hit["id"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&found), [5, 4, 6]);
    assert_eq!((&found["hits"][1]["rank"], &found["hits"][1]["distance"]), (&json!(2), &json!(1.0)));
    assert_eq!(ids(&search(json!({"query": {"name": "cats/003.jpg"}, "range": 0.5})).json()), [3]);
    assert_eq!(ids(&search(json!({"query": {"id": 5}, "k": 2, "class": "dogs"})).json()), [4, 7]);
    let subset = json!(["dogs/001.jpg", 7, 8, 4]);
    assert_eq!(ids(&search(json!({"query": {"id": 5}, "k": 3, "subset": subset})).json()), [4, 7, 8]);
    assert_eq!(
        ids(&search(json!({"query": {"id": 5}, "k": 3, "subset": subset, "class": "dogs"})).json()),
        [4, 7, 1]
    );
    assert_eq!(ids(&search(json!({"query": {"signature": [[9.0, 1]]}, "k": 1})).json()), [9]);

    let image = ["Content-Type: image/jpeg"];
    let found = request(at, "POST", "/v1/stores/s/search?k=2", &image, Some(b"P\x08")).json();
    assert_eq!(ids(&found), [8, 7]);
    assert_eq!((&found["query"]["width"], &found["query"]["height"]), (&json!(7), &json!(5)));
    let token = found["query"]["token"].clone();
    assert_eq!(ids(&search(json!({"query": {"token": token}, "k": 1})).json()), [8]);

    let multipart = "--x\r\nContent-Disposition: form-data; name=\"options\"\r\n\r\n{\"k\": 1}\r\n\
                     --x\r\nContent-Disposition: form-data; name=\"image\"; filename=\"../../a.jpg\"\r\n\r\nP\x03\r\n--x--\r\n";
    let types = ["Content-Type: multipart/form-data; boundary=x"];
    let found = request(at, "POST", "/v1/stores/s/search", &types, Some(multipart.as_bytes()));
    assert_eq!(ids(&found.json()), [3], "{found:?}");
    for bad in [
        "",
        "--x\r\n",
        &multipart.replace("name=\"image\"", "name=\"other\""),
        &multipart.replace("\"k\": 1", "\"k\": 0"),
    ] {
        let answer = request(at, "POST", "/v1/stores/s/search", &types, Some(bad.as_bytes()));
        assert!([400, 422].contains(&answer.status), "{bad:?}: {answer:?}");
    }
}

#[test]
fn searches_that_do_not_fit_are_refused() {
    let (server, _) = started();
    let at = server.address();
    for (body, status, problem, pointer) in [
        (json!({}), 422, "values", "/query"),
        (json!({"query": 3}), 422, "values", "/query"),
        (json!({"query": {"id": 1, "name": "x"}}), 422, "values", "/query"),
        (json!({"query": {"id": -1}}), 422, "values", "/query/id"),
        (json!({"query": {"id": 400}}), 422, "unknown-object", "/query/id"),
        (json!({"query": {"name": "cats/999.jpg"}}), 422, "unknown-object", "/query/name"),
        (json!({"query": {"name": "../../etc/passwd"}}), 422, "unknown-object", "/query/name"),
        (json!({"query": {"token": "x"}}), 422, "unknown-object", "/query/token"),
        (json!({"query": {"signature": []}}), 422, "values", "/query/signature"),
        (json!({"query": {"signature": [[1, "x"]]}}), 422, "values", "/query/signature"),
        (json!({"query": {"signature": [[1, 2, 3]]}}), 422, "values", "/query/signature"),
        (json!({"query": {"id": 1}, "k": 0}), 422, "values", "/k"),
        (json!({"query": {"id": 1}, "k": 1001}), 422, "values", "/k"),
        (json!({"query": {"id": 1}, "range": -1}), 422, "values", "/range"),
        (json!({"query": {"id": 1}, "class": "cows"}), 422, "values", "/class"),
        (json!({"query": {"id": 1}, "subset": []}), 422, "values", "/subset"),
        (json!({"query": {"id": 1}, "subset": "dogs/001.jpg"}), 422, "values", "/subset"),
        (json!({"query": {"id": 1}, "subset": [1, "cows/001.jpg"]}), 422, "values", "/subset/1"),
        (json!({"query": {"id": 1}, "subset": [400]}), 422, "values", "/subset/0"),
        (json!({"query": {"id": 1}, "subset": [1.5]}), 422, "values", "/subset/0"),
        (json!({"query": {"id": 1}, "url": "http://example.org"}), 422, "values", "/url"),
    ] {
        let answer = post(at, "/v1/stores/s/search", &body);
        assert_eq!((answer.status, answer.problem().as_str()), (status, problem), "{body}");
        assert_eq!(answer.json()["errors"][0]["pointer"], pointer, "{body}");
    }
    let named = post(at, "/v1/stores/s/search", &json!({"query": {"name": "cats/999.jpg"}})).json();
    assert!(named["detail"].as_str().unwrap().contains("did you mean `cats/000.jpg`"), "{named}");
    let of_type = |media: &str, body: &[u8]| {
        let header = format!("Content-Type: {media}");
        let headers: &[&str] = if media.is_empty() { &[] } else { &[&header] };
        let answer = request(at, "POST", "/v1/stores/s/search", headers, Some(body));
        (answer.status, answer.problem())
    };
    let deep = format!("{}1{}", "[".repeat(40), "]".repeat(40));
    let pairs = |status: u16, problem: &str| (status, problem.to_owned());
    assert_eq!(of_type("application/json", b"{"), pairs(400, "malformed"));
    assert_eq!(of_type("application/json", b"\xff"), pairs(400, "malformed"));
    assert_eq!(of_type("application/json", deep.as_bytes()), pairs(400, "malformed"));
    assert_eq!(of_type("application/json", b"[]"), pairs(422, "values"));
    assert_eq!(of_type("", b"{}"), pairs(415, "media"));
    assert_eq!(of_type("text/plain", b"{}"), pairs(415, "media"));
    assert_eq!(of_type("image/svg+xml", b"<svg/>"), pairs(415, "media"));
    assert_eq!(of_type("image/jpeg", b"text"), pairs(415, "media"));
    assert_eq!(of_type("image/jpeg", b"T"), pairs(422, "image"));
    assert_eq!(of_type("image/jpeg", b""), pairs(422, "image"));
    let long = vec![b' '; (1 << 20) + 1];
    assert_eq!(of_type("application/json", &long), pairs(413, "too-large"));
    let no_length = b"POST /v1/stores/s/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n";
    assert_eq!(raw(at, no_length).status, 411);
    let chunked = b"POST /v1/stores/s/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                    Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n15\r\n{\"query\":{\"id\":1}   }\r\n0\r\n\r\n";
    assert_eq!(raw(at, chunked).status, 200);
}

#[test]
fn thumbnails_are_cached_by_their_tags() {
    let (server, _) = started();
    let at = server.address();
    let path = "/v1/stores/s/objects/4/thumbnail?size=96";
    let first = get(at, path);
    assert_eq!(
        (first.text().as_str(), first.header("content-type")),
        ("jpeg of 4 at 96", Some("image/jpeg"))
    );
    assert_eq!(first.header("cache-control"), Some("private, no-cache"));
    let tag = first.header("etag").unwrap();
    let again = request(at, "GET", path, &[&format!("If-None-Match: {tag}")], None);
    assert_eq!((again.status, again.body.len()), (304, 0));
    let versioned = get(at, &format!("{path}&v=first"));
    assert!(versioned.header("cache-control").unwrap().contains("immutable"));
    assert_eq!(get(at, &format!("{path}&v=other")).header("cache-control"), Some("private, no-cache"));
    assert_eq!(get(at, "/v1/stores/s/objects/4/thumbnail").text(), "jpeg of 4 at 192");
    assert_eq!(get(at, "/v1/stores/s/objects/4/thumbnail?size=5000").status, 422);
    assert_eq!(get(at, "/v1/stores/s/objects/13/thumbnail").problem(), "not-found");
}

#[test]
fn originals_are_given_on_demand_alone() {
    let backend = Fake::new(3);
    let server = serving(&backend, Config { originals: true, limits: limits(), ..Config::new(local()) });
    let answer = get(server.address(), "/v1/stores/s/objects/1/image");
    assert_eq!((answer.text().as_str(), answer.header("content-type")), ("png of 1", Some("image/png")));
    assert_eq!(get(server.address(), "/v1/stores/s").json()["originals"], true);
}

#[test]
fn every_answer_has_the_headers_that_protect_it() {
    let (server, _) = started();
    let at = server.address();
    for path in ["/", "/assets/style.css", "/v1/stores", "/nothing", "/plain", "/healthz", "/problems/busy"] {
        let answer = get(at, path);
        let policy = answer.header("content-security-policy").unwrap();
        assert!(
            policy.starts_with("default-src 'none';") && policy.contains("frame-ancestors 'none'"),
            "{path}"
        );
        assert_eq!(policy.contains("form-action 'self'"), path == "/plain");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-origin"));
        assert_eq!(answer.header("cross-origin-opener-policy"), Some("same-origin"));
        assert!(
            answer.header("x-request-id").is_some() && answer.header("access-control-allow-origin").is_none()
        );
    }
}

#[test]
fn paths_that_climb_find_nothing() {
    let (server, _) = started();
    let at = server.address();
    let corpus = [
        "/v1/stores/s/objects/../../etc/passwd",
        "/../etc/passwd",
        "/%2e%2e/etc/passwd",
        "/..%2fetc%2fpasswd",
        "/assets/../Cargo.toml",
        "/assets/..%2fCargo.toml",
        "/assets/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/assets/..\\Cargo.toml",
        "/assets/..%5cCargo.toml",
        "/assets//etc/passwd",
        "/assets/%00",
        "/assets/index.html%00.css",
        "/assets/....//x",
        "/assets/%c0%ae%c0%ae/x",
        "/v1/stores/..",
        "/v1/stores/%2e%2e/objects",
        "//etc/passwd",
        "/v1/stores/s%2f..%2f..%2f",
        "/v1/sessions/..%2f..%2fetc%2fpasswd",
        "/v1/sessions/%2e%2e/log",
        "/problems/..%2fx",
        "/v1/stores/s/objects/4/thumbnail/../../../..",
        "/.env",
        "/assets/.git/config",
        "/assets/",
        "/v1/stores/s/objects/1%00/thumbnail",
        "/v1/stores/s/objects/1/../2",
    ];
    for path in corpus {
        let answer = raw(
            at,
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes(),
        );
        assert!([400, 404].contains(&answer.status), "{path}: {}", answer.status);
        assert!(!answer.text().contains("root:") && !answer.text().contains("[package]"), "{path}");
    }
    let long = format!("/v1/stores/{}", "x".repeat(9000));
    assert_eq!(get(at, &long).problem(), "address-length");
    let large = format!("X-Large: {}", "x".repeat(20_000));
    assert_eq!(request(at, "GET", "/", &[&large], None).status, 431);
    for garbage in [
        &b"\0\xff garbage\r\n\r\n"[..],
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n",
        b"GET /\r\n\r\n",
    ] {
        assert_eq!(raw(at, garbage).status, 400, "{garbage:?}");
    }
}

#[test]
fn other_hosts_and_origins_are_refused() {
    let backend = Fake::new(3);
    let config = Config {
        hosts: vec!["photos.example".to_owned()],
        cors: Some("https://other.example".to_owned()),
        limits: limits(),
        ..Config::new(local())
    };
    let server = serving(&backend, config);
    let at = server.address();
    for (host, status) in [
        ("localhost", 200),
        ("LOCALHOST:80", 200),
        ("127.0.0.1:8080", 200),
        ("[::1]:8080", 200),
        ("photos.example:99", 200),
        ("evil.test", 403),
        ("localhost.evil.test", 403),
        ("127.0.0.1.evil.test", 403),
        ("192.168.1.1", 403),
        ("", 403),
    ] {
        let answer = request(at, "GET", "/healthz", &[&format!("Host: {host}")], None);
        assert_eq!(answer.status, status, "{host}");
    }
    let body = json!({"query": {"id": 1}}).to_string();
    for (headers, status) in [
        (&[][..], 200),
        (&["Sec-Fetch-Site: same-origin"], 200),
        (&["Sec-Fetch-Site: none"], 200),
        (&["Sec-Fetch-Site: cross-site"], 403),
        (&["Sec-Fetch-Site: same-site"], 403),
        (&["Origin: http://localhost"], 200),
        (&["Origin: http://localhost:81"], 403),
        (&["Origin: http://evil.test"], 403),
        (&["Origin: null"], 403),
        (&["Origin: https://other.example"], 200),
        (&["Origin: https://other.example", "Sec-Fetch-Site: cross-site"], 200),
        (&["Origin: https://other.example.evil.test", "Sec-Fetch-Site: cross-site"], 403),
    ] {
        let headers = [&["Content-Type: application/json"], headers].concat();
        let answer = request(at, "POST", "/v1/stores/s/search", &headers, Some(body.as_bytes()));
        assert_eq!(answer.status, status, "{headers:?}");
    }
    let of_other = request(at, "GET", "/v1/stores", &["Origin: https://other.example"], None);
    assert_eq!(of_other.header("access-control-allow-origin"), Some("https://other.example"));
    let of_evil = request(at, "GET", "/v1/stores", &["Origin: https://evil.test"], None);
    assert_eq!(of_evil.header("access-control-allow-origin"), None);
    let preflight = |origin: &str| request(at, "OPTIONS", "/v1/stores/s/search", &[origin], None).status;
    assert_eq!(
        (preflight("Origin: https://other.example"), preflight("Origin: https://evil.test")),
        (204, 403)
    );
}

#[test]
fn a_token_opens_all_but_the_page() {
    let backend = Fake::new(3);
    let token = Some("0123456789abcdef".to_owned());
    let server = serving(&backend, Config { token, limits: limits(), ..Config::new(local()) });
    let at = server.address();
    for path in ["/", "/assets/style.css", "/healthz", "/problems/token"] {
        assert_eq!(get(at, path).status, 200, "{path}");
    }
    for path in [
        "/v1/stores",
        "/metrics",
        "/readyz",
        "/plain",
        "/v1/stores/s/objects/1/thumbnail",
        "/v1/openapi.json",
    ] {
        let answer = get(at, path);
        assert_eq!(
            (answer.problem().as_str(), answer.header("www-authenticate")),
            ("token", Some("Bearer")),
            "{path}"
        );
    }
    for (header, status) in [
        ("Authorization: Bearer 0123456789abcdef", 200),
        ("Authorization: bearer 0123456789abcdef", 200),
        ("Authorization: Bearer 0123456789abcdee", 401),
        ("Authorization: Bearer 0123456789abcde", 401),
        ("Authorization: Basic 0123456789abcdef", 401),
        ("Authorization: Bearer", 401),
        ("Cookie: token=0123456789abcdef", 401),
    ] {
        assert_eq!(request(at, "GET", "/v1/stores", &[header], None).status, status, "{header}");
    }
}

#[test]
fn what_a_client_does_not_take_is_not_sent() {
    let (server, _) = started();
    let at = server.address();
    assert_eq!(request(at, "GET", "/v1/stores", &["Accept: text/html"], None).problem(), "not-acceptable");
    assert_eq!(request(at, "GET", "/v1/stores", &["Accept: application/json"], None).status, 200);
    assert_eq!(
        request(at, "GET", "/v1/stores/s/objects/1/thumbnail", &["Accept: image/*"], None).status,
        200
    );
}

#[test]
fn health_and_figures_are_there() {
    let (server, backend) = started();
    let at = server.address();
    assert_eq!(get(at, "/healthz").json()["status"], "ok");
    assert_eq!(get(at, "/readyz").json()["status"], "ok");
    backend.readiness.lock().notes.push("store s: it is stale".to_owned());
    assert_eq!(get(at, "/readyz").json()["status"], "stale");
    backend.readiness.lock().ready = false;
    assert_eq!(get(at, "/readyz").status, 503);
    get(at, "/v1/stores/s");
    let page = get(at, "/metrics").text();
    for line in [
        "boxwork_http_requests_total{route=\"/v1/stores/{store}\",status=\"200\"} 1",
        "boxwork_http_requests_total{route=\"/readyz\",status=\"503\"} 1",
        "boxwork_http_in_flight 1",
        "boxwork_sessions 0",
        "fake 1",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} in {page}");
    }
}

#[test]
fn the_plain_page_needs_no_script_and_shows_names_as_text() {
    let (server, backend) = started();
    let at = server.address();
    let evil = "<img src=x onerror=\"alert(1)\">.jpg";
    backend.change("second", "f", vec![Some("a/1.jpg".to_owned()), Some(evil.to_owned())]);
    let page = get(at, "/plain?store=s&name=a/1.jpg&k=2").text();
    assert!(page.contains("<form action=\"/plain\"") && page.contains("Nearest to a/1.jpg"), "{page}");
    assert!(
        page.contains("&lt;img src=x onerror=&quot;alert(1)&quot;&gt;.jpg</a>")
            && !page.contains("<img src=x")
    );
    let none = get(at, "/plain?name=%3Cscript%3E").text();
    assert!(none.contains("no object <b>&lt;script&gt;</b>") && !none.contains("<script"), "{none}");
    assert!(get(at, "/plain").text().contains("Some objects"));
    assert_eq!(get(at, "/plain?k=0").status, 422);
}

#[test]
fn the_page_is_embedded_and_every_problem_has_its_page() {
    let (server, _) = started();
    let at = server.address();
    let page = get(at, "/");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let tag = page.header("etag").unwrap().to_owned();
    assert_eq!(request(at, "GET", "/", &[&format!("If-None-Match: {tag}")], None).status, 304);
    assert_eq!(get(at, "/assets/style.css").header("content-type"), Some("text/css; charset=utf-8"));
    for kind in KINDS {
        let about = get(at, &format!("/problems/{}", kind.name));
        assert!(about.text().contains(kind.title), "{}", kind.name);
    }
}

/// The document in the tree; `cargo run -- serve --openapi > server/openapi.json` writes it.
#[test]
fn the_openapi_document_is_the_one_in_the_tree() {
    let (server, _) = started();
    let served = get(server.address(), "/v1/openapi.json");
    let text = boxwork_server::openapi::text();
    assert_eq!(served.text(), text);
    assert_eq!(served.json()["openapi"], "3.1.0");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(kept == text, "`boxwork serve --openapi > server/openapi.json` writes it anew");
    let routes = served.json()["paths"].as_object().unwrap().len();
    assert_eq!(routes, boxwork_server::guard::ROUTES.len());
}

#[test]
fn a_client_that_sends_too_much_too_often_is_told_to_wait() {
    let backend = Fake::new(3);
    let limits = Limits { rate: 1, burst: 3, thumbnail_rate: 2, ..Limits::default() };
    let server = serving(&backend, Config { limits, ..Config::new(local()) });
    let at = server.address();
    let statuses: Vec<u16> = (0..5).map(|_| get(at, "/v1/stores").status).collect();
    assert!(statuses.contains(&429) && statuses[..3] == [200; 3], "{statuses:?}");
    let refused = (0..20).map(|_| get(at, "/v1/stores")).find(|answer| answer.status == 429).unwrap();
    assert_eq!((refused.problem().as_str(), refused.header("retry-after")), ("rate", Some("1")));
    assert!((0..9).any(|_| get(at, "/v1/stores/s/objects/1/thumbnail").status == 429));
    assert!((0..9).all(|_| get(at, "/healthz").status == 200), "whoever watches the server is not refused");
}

/// The guide says of each kind what the server says.
#[test]
fn the_guide_lists_every_problem() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guide/src/problems.md");
    let page = std::fs::read_to_string(page).unwrap();
    let sections = page.lines().filter(|line| line.starts_with("## ")).count();
    assert_eq!(sections, KINDS.len());
    for kind in KINDS {
        let section = format!("\n## {}\n\n{} ({}).\n\n{}\n", kind.name, kind.title, kind.status, kind.about);
        assert!(page.contains(&section), "docs/guide/src/problems.md has no section\n{section}");
    }
}
